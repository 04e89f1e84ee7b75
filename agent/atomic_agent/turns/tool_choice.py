"""Which tools a conversation starts with (B19). Pure: knows names only, runs nothing.

Order: an explicit restriction of this launch, else what the session recorded, else the defaults; then `+name,-name`;
then what is excluded and what the parent does not allow goes, whoever asked for it. Stages and subagents have tools
of their own and never adopt a record that came with a forked conversation.
"""

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from atomic_sessions.errors import UsageError

Kind = Literal["main", "stage", "subagent"]


class Catalogue(Struct, frozen=True):
    """The tools there are: all names in their order, those that are built in, and those that are on unless somebody
    says otherwise. `own` are tools of this stage or subagent alone, which its parent has no say about."""

    names: tuple[str, ...]
    builtin: frozenset[str]
    defaults: frozenset[str]
    own: frozenset[str] = frozenset()


BUILTIN = Catalogue(
    ("read", "bash", "edit", "write", "grep", "find", "ls"),
    frozenset({"read", "bash", "edit", "write", "grep", "find", "ls"}),
    frozenset({"read", "bash", "edit", "write"}),
)
"""The tools of this program."""


class ToolFlags(Struct, frozen=True):
    """What a launch asks for. `tools` is the text of --tools, None when it was not given."""

    tools: str | None = None
    no_tools: bool = False
    no_builtin_tools: bool = False
    excluded: frozenset[str] = frozenset()


class Restriction(Struct, frozen=True):
    """What a parent allows its children: at most `allowed` (None: anything), never `excluded`."""

    allowed: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()


FREE = Restriction()


class Tools(Struct, frozen=True):
    """The tools that are on, in the catalogue's order, and what the person should know about the choice."""

    active: tuple[str, ...]
    notes: tuple[str, ...] = ()


class Asked(Struct, frozen=True):
    """What --tools says: `only` these (None: no such list), or changes to what would be on."""

    only: frozenset[str] | None = None
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


def choose_tools(
    catalogue: Catalogue,
    flags: ToolFlags,
    recorded: Collection[str] | None,
    *,
    kind: Kind = "main",
    parent: Restriction = FREE,
) -> Tools:
    """Apply the rule. `recorded` is the session's set, None when it has none. UsageError for flags that contradict
    each other and for names nobody knows."""
    asked = read_tools(flags, catalogue)
    notes: list[str] = []
    if flags.no_tools:
        chosen: set[str] = set()
    elif asked.only is not None:
        chosen = set(asked.only)
    elif flags.no_builtin_tools:
        chosen = set(catalogue.defaults - catalogue.builtin)
    elif recorded is not None and kind == "main":
        chosen = set(recorded) & set(catalogue.names)
        notes += _gone(set(recorded) - set(catalogue.names))
    else:
        chosen = set(catalogue.defaults)
    chosen = (chosen | asked.added) - asked.removed
    named = (asked.only or frozenset()) | asked.added
    excluded = flags.excluded | parent.excluded
    notes += _kept_off(named & excluded, "excluded")
    chosen -= excluded
    if parent.allowed is not None:
        allowed = parent.allowed | catalogue.own
        notes += _kept_off((named - allowed) - excluded, "not allowed by the parent")
        chosen &= allowed
    return Tools(tuple(name for name in catalogue.names if name in chosen), tuple(notes))


def read_tools(flags: ToolFlags, catalogue: Catalogue) -> Asked:
    """What --tools asks for, checked against the other flags and against the names there are."""
    if flags.tools is None:
        return Asked()
    if flags.no_tools:
        raise UsageError("--tools and --no-tools cannot be used together.", "Choose one.")
    words = [word.strip() for word in flags.tools.split(",")]
    if not all(word.lstrip("+-") for word in words):
        raise UsageError(
            "--tools has an empty name.", "Give names, as in --tools read,edit; none: --no-tools"
        )
    changes = [word for word in words if word[0] in "+-"]
    plain = [word for word in words if word[0] not in "+-"]
    if changes and plain:
        raise UsageError(
            f"--tools mixes {_shown(plain[0])}, which names all tools, with {_shown(changes[0])}, which changes some.",
            "Give either names or changes: --tools a,b or --tools +a,-b",
        )
    asked = Asked(
        frozenset(plain) if plain else None,
        frozenset(word[1:] for word in changes if word[0] == "+"),
        frozenset(word[1:] for word in changes if word[0] == "-"),
    )
    for word in words:
        _check_known(word[1:] if changes else word, catalogue.names)
    if both := sorted(asked.added & asked.removed):
        raise UsageError(f"--tools both adds and removes {both[0]}.", "Keep one.")
    wanted = (asked.only or frozenset()) | asked.added
    if flags.no_builtin_tools and (builtin := sorted(wanted & catalogue.builtin)):
        raise UsageError(
            f"--no-builtin-tools and --tools {builtin[0]} contradict each other: {builtin[0]} is built in.",
            "Leave one away.",
        )
    return asked


def excluded(text: str, catalogue: Catalogue) -> frozenset[str]:
    """The names that --exclude-tools lists; UsageError for one nobody knows."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError("--exclude-tools has an empty name.", "Give names, as in --exclude-tools bash,write")
    for name in names:
        _check_known(name, catalogue.names)
    return frozenset(names)


def for_children(flags: ToolFlags, catalogue: Catalogue, parent: Restriction = FREE) -> Restriction:
    """What this launch's flags restrict stages and subagents to, on top of what its own parent did."""
    asked = read_tools(flags, catalogue)
    excluded = parent.excluded | flags.excluded | asked.removed
    if flags.no_builtin_tools:
        excluded |= catalogue.builtin
    allowed = frozenset() if flags.no_tools else asked.only
    if allowed is None or parent.allowed is None:
        return Restriction(parent.allowed if allowed is None else allowed, excluded)
    return Restriction(allowed & parent.allowed, excluded)


def _check_known(name: str, names: Sequence[str]) -> None:
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    mend = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(names) or 'none'}."
    raise UsageError(f"There is no tool {_shown(name)}.", mend)


def _shown(name: str) -> str:
    return f"'{name[:40]}'"


def _gone(names: Iterable[str]) -> list[str]:
    found = sorted(names)
    return [f"Tools of this session that are not here: {', '.join(found)}."] if found else []


def _kept_off(names: Iterable[str], why: str) -> list[str]:
    found = sorted(names)
    return [f"Tools that stay off, {why}: {', '.join(found)}."] if found else []
