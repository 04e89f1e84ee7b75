"""Two small sessions as the agents themselves write them, for a demo without files of one's own."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

CLAUDE_PROMPT = "Why does the nightly export take an hour since last week?"
PI_PROMPT = "Rename the parser module and keep the old import working."


def write(home: Path, folder: Path) -> None:
    """A Claude Code session with a tool call and a pi session, both of this folder."""
    _claude(home, folder, datetime.now(UTC) - timedelta(hours=2))
    _pi(home, folder, datetime.now(UTC) - timedelta(hours=5))


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _claude(home: Path, folder: Path, begun: datetime) -> None:
    session = str(uuid.uuid4())
    key = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(folder))
    said: list[tuple[str, object]] = [
        ("user", CLAUDE_PROMPT),
        (
            "assistant",
            [
                {"type": "text", "text": "I will look at what changed in the export job."},
                {
                    "type": "tool_use",
                    "id": "toolu_demo1",
                    "name": "Bash",
                    "input": {"command": "git log --oneline -3 jobs/export.py"},
                },
            ],
        ),
        (
            "user",
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_demo1",
                    "content": "4f1c2aa fetch each row's owner\n9b0d111 format dates",
                    "is_error": False,
                }
            ],
        ),
        (
            "assistant",
            [
                {
                    "type": "text",
                    "text": "Commit `4f1c2aa` asks for the owner **once per row**. One join brings it back.",
                }
            ],
        ),
    ]
    lines: list[dict[str, object]] = []
    parent: str | None = None
    for at, (role, content) in enumerate(said):
        entry = str(uuid.uuid4())
        message: dict[str, object] = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg_demo{at}", "type": "message", "model": "claude-demo", "stop_reason": None}
        lines.append(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": str(folder),
                "sessionId": session,
                "version": "2.1.332",
                "gitBranch": "main",
                "type": role,
                "message": message,
                "uuid": entry,
                "timestamp": _stamp(begun + timedelta(seconds=20 * at)),
            }
        )
        parent = entry
    _lines(home / ".claude" / "projects" / key / f"{session}.jsonl", lines)


def _pi(home: Path, folder: Path, begun: datetime) -> None:
    session = str(uuid.uuid4())
    key = "--" + str(folder).lstrip("/").replace("/", "-") + "--"
    millis = int(begun.timestamp() * 1000)
    lines: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": session, "timestamp": _stamp(begun), "cwd": str(folder)},
        {
            "type": "message",
            "id": "a1b2c3d4",
            "parentId": None,
            "timestamp": _stamp(begun),
            "message": {"role": "user", "content": PI_PROMPT, "timestamp": millis},
        },
        {
            "type": "message",
            "id": "b2c3d4e5",
            "parentId": "a1b2c3d4",
            "timestamp": _stamp(begun + timedelta(seconds=9)),
            "message": {
                "role": "assistant",
                "content": [
                    {
                        "type": "text",
                        "text": "Done: `parse.py` is `reader.py` now, and `parse.py` imports from it.",
                    }
                ],
                "provider": "demo",
                "model": "demo",
                "stopReason": "stop",
                "timestamp": millis + 9000,
            },
        },
    ]
    _lines(
        home
        / ".pi"
        / "agent"
        / "sessions"
        / key
        / f"{_stamp(begun).replace(':', '-').replace('.', '-')}_{session}.jsonl",
        lines,
    )


def _lines(path: Path, lines: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
