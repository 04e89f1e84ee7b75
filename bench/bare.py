"""The least that taking in files of lines can cost: each line decoded, packed, encrypted and indexed for search.

python -m bench.bare DATABASE FILE...
"""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import sqlcipher3.dbapi2 as sqlcipher
import zstandard


def main() -> None:
    pack = zstandard.ZstdCompressor(level=3).compress
    connection = sqlcipher.connect(sys.argv[1], isolation_level=None)
    connection.execute(f"PRAGMA key = \"x'{os.urandom(32).hex()}'\"")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE e (row INTEGER PRIMARY KEY, raw BLOB)")
    connection.execute("CREATE VIRTUAL TABLE s USING fts5(text, content='', contentless_delete=1)")
    row = 0
    for file in sys.argv[2:]:
        rows, texts = [], []
        for raw in Path(file).read_bytes().split(b"\n"):
            if not raw:
                continue
            row += 1
            found: Any = msgspec.json.decode(raw)
            content = found["message"]["content"]
            text = content if isinstance(content, str) else " ".join(b.get("text", "") for b in content)
            rows.append((row, pack(raw)))
            if text.strip():
                texts.append((row, text))
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO e VALUES (?, ?)", rows)
        connection.executemany("INSERT INTO s (rowid, text) VALUES (?, ?)", texts)
        connection.execute("COMMIT")
    connection.close()


if __name__ == "__main__":
    main()
