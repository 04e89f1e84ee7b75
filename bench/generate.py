"""Seeded sessions for measurements: the same bytes on every run.

    python -m bench.generate FOLDER

writes FOLDER/home/.claude (200 Claude Code sessions of 100 messages, 30 MB) and FOLDER/single (one of 2,000
messages, 3 MB; one of 50 MB).
"""

import json
import random
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

WORDS = (
    "anchor",
    "branch",
    "buffer",
    "commit",
    "cursor",
    "daemon",
    "encode",
    "filter",
    "gather",
    "header",
    "insert",
    "join",
    "keeper",
    "ledger",
    "marker",
    "network",
    "object",
    "parser",
    "query",
    "record",
    "signal",
    "thread",
    "update",
    "vector",
    "writer",
    "yield",
    "zone",
    "fixture",
    "export",
    "harbor",
)
SMALL = "11111111-1111-4111-8111-111111111111"
LARGE = "22222222-2222-4222-8222-222222222222"
SESSIONS, MESSAGES = 200, 100


class Writer:
    """Makes conversations from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # the same data each time

    def text(self, length: int) -> str:
        words: list[str] = []
        size = 0
        while size < length:
            words.append(self._random.choice(WORDS))
            size += len(words[-1]) + 1
        return " ".join(words)

    def identity(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def session(self, path: Path, cwd: str, count: int, begun: datetime, scale: int = 1) -> None:
        """A conversation of prompts, tool calls, results and answers in turn."""
        parent: str | None = None
        call = ""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as stream:
            for index in range(count):
                begun += timedelta(seconds=self._random.randint(5, 60))
                entry = self.identity()
                line: dict[str, Any] = {
                    "parentUuid": parent,
                    "isSidechain": False,
                    "userType": "external",
                    "cwd": cwd,
                    "sessionId": path.stem,
                    "version": "2.1.332",
                    "gitBranch": "main",
                    "uuid": entry,
                    "timestamp": begun.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                }
                call = self._fill(line, index, entry, call, scale)
                stream.write(json.dumps(line) + "\n")
                parent = entry

    def _fill(self, line: dict[str, Any], index: int, entry: str, call: str, scale: int) -> str:
        kind = index % 4
        if kind == 0:
            said = ("Please look at the slow export. " if index == 0 else "") + self.text(230 * scale)
            if index == 40:
                said += " quicksilverneedle"
            line |= {"type": "user", "message": {"role": "user", "content": said}}
            return call
        if kind == 2:
            output = "\n".join(self.text(70) for _ in range(self._random.randint(5, 30) * scale))
            result = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": False}
            line |= {
                "type": "user",
                "message": {"role": "user", "content": [result]},
                "toolUseResult": {"stdout": output, "stderr": "", "interrupted": False},
            }
            return call
        call = "toolu_" + entry.replace("-", "")[:22]
        content: list[dict[str, Any]] = [
            {"type": "text", "text": self.text((200 if kind == 1 else 550) * scale)}
        ]
        if kind == 1:
            command = {"command": "pytest -q " + self.text(20), "description": "run tests"}
            content.append({"type": "tool_use", "id": call, "name": "Bash", "input": command})
        usage = {"input_tokens": 1200, "output_tokens": 210, "cache_read_input_tokens": 9000}
        message = {"id": f"msg_{entry[:12]}", "type": "message", "role": "assistant", "model": "claude-test"}
        line |= {
            "type": "assistant",
            "message": message | {"content": content, "stop_reason": None, "usage": usage},
        }
        return call


def generate(folder: Path) -> None:
    """Write everything below a folder."""
    writer = Writer(7)
    begun = datetime(2026, 11, 1, 8, tzinfo=UTC)
    for number in range(SESSIONS):
        project = f"/home/dev/project{number % 8}"
        key = project.replace("/", "-")
        path = folder / "home" / ".claude" / "projects" / key / f"{writer.identity()}.jsonl"
        writer.session(path, project, MESSAGES, begun + timedelta(hours=2 * number))
    writer.session(folder / "single" / f"{SMALL}.jsonl", "/home/dev/single", 2000, begun)
    writer.session(folder / "single" / f"{LARGE}.jsonl", "/home/dev/large", 15_100, begun, scale=3)


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
