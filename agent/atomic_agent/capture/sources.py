"""Where the agents people run keep their sessions, and which files belong to one. Reads no line."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from atomic_agent.config.launch import earlier_sessions
from atomic_agent.locations import home

AGENTS = ("claude-code", "codex", "pi")
SIDE_FOLDERS = ("tool-results",)


class Source(Struct, frozen=True):
    """One session file. `agent` empty: to be told from its content. `owner` is the id of the session
    whose sub-agent this is, `sides` the files that travel with it."""

    path: Path
    agent: str = ""
    owner: str = ""
    sides: tuple[Path, ...] = ()


def roots(agent: str) -> list[Path]:
    """The folders an agent's sessions lie in on this machine."""
    person = Path.home()
    if agent == "claude-code":
        return [Path(os.environ.get("CLAUDE_CONFIG_DIR") or person / ".claude") / "projects"]
    if agent == "codex":
        codex = Path(os.environ.get("CODEX_HOME") or person / ".codex")
        return [codex / "sessions", codex / "archived_sessions"]
    base = os.environ.get("PI_CODING_AGENT_DIR")
    sessions = (Path(base) if base else person / ".pi" / "agent") / "sessions"
    return [] if is_earlier(sessions) else [sessions]


def is_earlier(root: Path) -> bool:
    """True for the folder of this program's own earlier sessions, or one in it: they are listed beside the cache's and
    copied in when they are opened, so nothing captures them (B3, D3)."""
    folder = earlier_sessions(home(), os.environ, Path.cwd())
    try:
        return folder.exists() and root.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def find(agent: str, root: Path) -> Iterator[Source]:
    """Session files of one agent under its root, in a stable order."""
    pattern = "*.jsonl"
    if not root.is_dir():
        return
    if agent == "codex":
        for path in sorted(root.rglob("rollout-*")):
            if _is_session_name(path) or path.suffix == ".json":
                yield Source(path, agent)
        return
    for folder in sorted(p for p in root.iterdir() if p.is_dir()):
        for path in sorted(folder.glob(pattern)):
            yield _with_sides(path, agent)
            if agent == "claude-code":
                yield from _subagents(path)


def find_any(root: Path) -> Iterator[Source]:
    """Every file under a folder, or the file itself, that may be a session of an agent we know."""
    if root.is_file():
        yield _with_sides(root, "")
        return
    for folder, folders, files in os.walk(root):
        folders.sort()
        here = Path(folder)
        if "subagents" in here.parts[len(root.parts) :]:
            owner = _owner_of(here)
            for name in sorted(files):
                if name.endswith(".jsonl"):
                    yield _subagent(here / name, owner)
            continue
        for name in sorted(files):
            if _is_session_name(here / name):
                yield _with_sides(here / name, "")


def source_of(agent: str, root: Path, path: Path) -> Source | None:
    """The session file that a path below a root is, or travels with; None for any other. What `find` and
    `find_any` find is exactly what this knows; a side file answers with its session's."""
    parts = path.relative_to(root).parts
    if not parts or (agent == "pi" and len(parts) != 2):
        return None
    if agent == "codex":
        named = path.name.startswith("rollout-") and (_is_session_name(path) or path.suffix == ".json")
        return Source(path, agent) if named else None
    if "subagents" in parts[:-1]:
        at = parts.index("subagents")
        if (agent and at != 2) or agent == "pi":
            return None
        owner = parts[at - 1] if at else ""
        session = path.with_name(path.name.removesuffix(".meta.json") + ".jsonl")
        path = session if path.name.endswith(".meta.json") else path
        return _subagent(path, owner) if path.suffix == ".jsonl" else None
    if len(parts) > 2 and parts[-2] in SIDE_FOLDERS:
        path = path.parent.parent.with_suffix(".jsonl")
        parts = path.relative_to(root).parts
    if agent and (len(parts) != 2 or path.suffix != ".jsonl"):
        return None
    return _with_sides(path, agent) if _is_session_name(path) else None


def is_packed(path: Path) -> bool:
    """True for a file that its agent has compressed whole."""
    return path.name.endswith(".jsonl.zst")


def _is_session_name(path: Path) -> bool:
    """A file of lines, or a packed one whose plain file is gone: where both are there the plain one counts."""
    return path.name.endswith(".jsonl") or (is_packed(path) and not path.with_suffix("").exists())


def _owner_of(folder: Path) -> str:
    parts = folder.parts
    return parts[parts.index("subagents") - 1] if parts.index("subagents") else ""


def _subagents(session: Path) -> Iterator[Source]:
    folder = session.with_suffix("") / "subagents"
    if folder.is_dir():
        for path in sorted(folder.rglob("*.jsonl")):
            yield _subagent(path, session.stem)


def _subagent(path: Path, owner: str) -> Source:
    meta = path.with_suffix(".meta.json")
    return Source(path, "claude-code", owner, (meta,) if meta.is_file() else ())


def _with_sides(path: Path, agent: str) -> Source:
    sides: list[Path] = []
    folder = path.with_suffix("")
    for name in SIDE_FOLDERS:
        # One that may not be listed keeps no session from being read.
        with suppress(OSError):
            sides.extend(sorted(p for p in (folder / name).iterdir() if p.is_file()))
    return Source(path, agent, "", tuple(sides))
