"""What a session adds up to: messages, models, tokens and cost, over all its branches. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from atomic_sessions.entry import Node, ToolCall, ToolResult, Usage


class Totals(Struct, frozen=True):
    """`models` in the order they first answered; tokens and cost over all branches."""

    user: int
    assistant: int
    calls: int
    results: int
    models: tuple[str, ...]
    usage: Usage


def totals(nodes: Iterable[Node]) -> Totals:
    """Count everything; parts of one answer (`group`) are one answer, whose last usage counts."""
    user = assistant = calls = results = 0
    models: dict[str, None] = {}
    usages: dict[str, Usage] = {}
    groups: set[str] = set()
    for node in nodes:
        view = node.view
        for block in view.blocks:
            calls += isinstance(block, ToolCall)
            results += isinstance(block, ToolResult)
        if view.kind == "message" and view.role == "user" and view.typed:
            user += 1
        if view.kind == "message" and view.role == "assistant":
            assistant += not view.group or view.group not in groups
            if view.group:
                groups.add(view.group)
        names_model = view.kind == "turn_context" or (view.kind == "message" and view.role == "assistant")
        if names_model and view.model and not view.model.startswith("<"):  # `<synthetic>`: Claude Code itself
            models[view.model] = None
        if view.usage is not None:
            usages[view.group or node.id] = view.usage
    total = Usage(
        sum(u.input for u in usages.values()),
        sum(u.output for u in usages.values()),
        sum(u.cache_read for u in usages.values()),
        sum(u.cache_write for u in usages.values()),
        sum(u.cost for u in usages.values()),
    )
    return Totals(user, assistant, calls, results, tuple(models), total)


def count(number: int) -> str:
    """1234567 as `1.2M`, 41250 as `41k`, 950 as `950`."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            value = number / size
            return f"{value:.0f}{letter}" if value >= 10 else f"{value:.1f}{letter}"
    return str(number)
