"""What is promised of a figure."""

from bench.stage import Figure

AT_MOST: dict[str, float] = {
    "capture_200": 2.0,
    "capture_200_again": 0.25,
    "capture_50mb": 2.5,
    "capture_50mb_rss": 150.0,
    "append_ratio": 1.9,
    "list_200": 0.15,
    "search_200": 0.15,
    "list_keyring": 0.45,
    "help_cpu": 0.06,
    "push_200": 4.0,
    "push_200_stored": 5.2,
    "pull_200": 4.0,
    "sync_noop": 0.4,
    "live_lag": 1.0,
    "html_2000": 0.8,
    "html_2000_size": 3.0,
    "watch_idle": 0.5,
    "watch_lag": 1.5,
    "capture_500mb_rss": 150.0,
    "push_500mb_rss": 150.0,
    "list_100k": 1.0,
    "list_2000_files": 3.0,
    "list_2000_again": 0.2,
    "page_10000": 0.05,
    "list_1gb_earlier": 3.0,
    "list_1gb_again": 0.2,
    "continue_10000": 0.25,
    "open_500mb": 0.3,
}
AT_LEAST: dict[str, float] = {"service_push_ratio": 0.5}
RATIOS: dict[str, float] = {"capture_50mb": 1.3}
"""Of figures whose ratio to their limit is promised too."""


def missed(figure: Figure) -> str:
    """What a figure was to be, when it is not; empty when it is."""
    if figure.value > AT_MOST.get(figure.name, figure.value):
        return f"over {AT_MOST[figure.name]:g}"
    if figure.value < AT_LEAST.get(figure.name, figure.value):
        return f"under {AT_LEAST[figure.name]:g}"
    if figure.ratio is not None and figure.ratio > RATIOS.get(figure.name, figure.ratio):
        return f"ratio over {RATIOS[figure.name]:g}"
    return ""
