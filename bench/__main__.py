"""`./dev bench [NAME…] [--data DIR] [--json FILE]`: figures beside limits measured in the same run.

Seconds, and MB of 10^6 bytes; medians. A figure over its bar is marked.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from bench.bars import missed
from bench.figures import Bench
from bench.generate import generate
from bench.keyring import list_keyring
from bench.large import large
from bench.service import service_push_ratio
from bench.stage import Figure
from bench.stores import stores
from bench.watching import watch_idle, watch_lag

GROUPS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "capture": Bench.capture,
    "capture_large": Bench.capture_large,
    "append": Bench.append,
    "reading": Bench.reading,
    "keyring": lambda bench: list_keyring(bench.root, bench.data, bench.runs),
    "html": Bench.html,
    "sync": Bench.sync,
    "service_push": lambda bench: service_push_ratio(bench.root, bench.runs),
    "watch": lambda bench: chain(
        watch_idle(bench.root, bench.data, bench.runs), watch_lag(bench.root, bench.data, bench.runs)
    ),
    "stores": lambda bench: stores(bench.root, bench.runs),
    "large": lambda bench: large(bench.root),
}

SLOW = ("large",)
"""Minutes each: run when named."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"groups: {', '.join(GROUPS)} (all but {', '.join(SLOW)})"
    )
    parser.add_argument("--data", type=Path, help="a folder with home/ and single/ (default: generated)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="one JSON object a figure")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    unknown = set(options.names) - set(GROUPS)
    if unknown:
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="atomic-bench-") as folder:
        root = Path(folder)
        data = options.data or root / "data"
        if options.data is None:
            generate(data)
        bench = Bench(data.absolute(), root, options.runs)
        found = []
        for name in options.names or [name for name in GROUPS if name not in SLOW]:
            for one in GROUPS[name](bench):
                found.append(one)
                limit = (
                    f"   limit {one.limit:9.3f}   ratio {one.ratio:6.2f}" if one.limit and one.ratio else ""
                )
                print(f"{one.name:<18} {one.value:9.3f} {one.unit:<5}{limit:<38}{missed(one)}", flush=True)
        if options.json:
            lines = [json.dumps(msgspec.to_builtins(one)) for one in found]
            options.json.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(0)


if __name__ == "__main__":
    main()
