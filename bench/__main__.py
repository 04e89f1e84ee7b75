"""`./dev bench [NAME…] [--data DIR] [--json FILE]`: figures beside limits measured in the same run.

Groups: capture, capture_large, append, reading, html, sync. Seconds, and MB of 10^6 bytes; medians.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import msgspec

from bench.figures import Bench
from bench.generate import generate

GROUPS = ("capture", "capture_large", "append", "reading", "html", "sync")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"groups: {', '.join(GROUPS)}")
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
        for name in options.names or GROUPS:
            for one in getattr(bench, name)():
                found.append(one)
                limit = (
                    f"   limit {one.limit:9.3f}   ratio {one.ratio:6.2f}" if one.limit and one.ratio else ""
                )
                print(f"{one.name:<18} {one.value:9.3f} {one.unit:<5}{limit}", flush=True)
        if options.json:
            lines = [json.dumps(msgspec.to_builtins(one)) for one in found]
            options.json.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(0)


if __name__ == "__main__":
    main()
