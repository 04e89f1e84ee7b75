"""Which tools are on: every combination of session, flags, exclusions, parent and kind."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atomic_agent.turns.tool_choice import (
    FREE,
    Catalogue,
    Kind,
    Restriction,
    ToolFlags,
    Tools,
    choose_tools,
    for_children,
    read_tools,
)
from atomic_sessions.errors import UsageError

NAMES = ("read", "edit", "bash", "web", "browser", "result")
CATALOGUE = Catalogue(
    NAMES,
    builtin=frozenset({"read", "edit", "bash"}),
    defaults=frozenset({"read", "edit", "web"}),
    own=frozenset({"result"}),
)
RECORDED = frozenset({"read", "browser"})


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _flags(
    tools: str | None = None, *, none: bool = False, no_builtin: bool = False, out: str = ""
) -> ToolFlags:
    return ToolFlags(tools, none, no_builtin, _set(out))


@pytest.mark.parametrize(
    ("flags", "recorded", "kind", "parent", "expected"),
    [
        # A new session, or one without a record: the defaults.
        (_flags(), None, "main", FREE, "read edit web"),
        (_flags("+bash,-edit"), None, "main", FREE, "read bash web"),
        (_flags("bash"), None, "main", FREE, "bash"),
        (_flags(none=True), None, "main", FREE, ""),
        (_flags(no_builtin=True), None, "main", FREE, "web"),
        (_flags(no_builtin=True, none=True), None, "main", FREE, ""),
        # Resumed with the default selection: the record, those activated later included.
        (_flags(), RECORDED, "main", FREE, "read browser"),
        (_flags(), _set(""), "main", FREE, ""),
        (_flags("+bash,-read"), RECORDED, "main", FREE, "bash browser"),
        (_flags("-browser"), RECORDED, "main", FREE, "read"),
        (_flags(" + bash".replace(" ", "")), RECORDED, "main", FREE, "read bash browser"),
        # Explicit selections keep their restriction.
        (_flags("bash,web"), RECORDED, "main", FREE, "bash web"),
        (_flags(none=True), RECORDED, "main", FREE, ""),
        (_flags(no_builtin=True), RECORDED, "main", FREE, "web"),
        (_flags("+browser", no_builtin=True), RECORDED, "main", FREE, "web browser"),
        (_flags("browser", no_builtin=True), RECORDED, "main", FREE, "browser"),
        # What is excluded stays excluded.
        (_flags(out="read"), RECORDED, "main", FREE, "browser"),
        (_flags(out="web"), None, "main", FREE, "read edit"),
        (_flags("read,bash", out="bash"), RECORDED, "main", FREE, "read"),
        (_flags("+bash", out="bash"), RECORDED, "main", FREE, "read browser"),
        # Stages and subagents keep their own.
        (_flags(), RECORDED, "stage", FREE, "read edit web"),
        (_flags(), RECORDED, "subagent", FREE, "read edit web"),
        (_flags("+result"), RECORDED, "stage", FREE, "read edit web result"),
        (_flags("bash,result"), RECORDED, "subagent", FREE, "bash result"),
        # The parent's restrictions apply, but not to what is the child's alone.
        (_flags(), RECORDED, "stage", Restriction(_set("read")), "read"),
        (_flags("+result"), None, "stage", Restriction(_set("read")), "read result"),
        (_flags("bash,result"), None, "subagent", Restriction(_set("")), "result"),
        (_flags(), None, "subagent", Restriction(None, _set("edit")), "read web"),
        (_flags("result"), None, "subagent", Restriction(None, _set("result")), ""),
    ],
)
def test_the_rule(
    flags: ToolFlags, recorded: Collection[str] | None, kind: Kind, parent: Restriction, expected: str
) -> None:
    """Flags, then the record, then the defaults; exclusions and the parent last, whoever asked."""
    assert choose_tools(CATALOGUE, flags, recorded, kind=kind, parent=parent).active == tuple(
        expected.split()
    )


@pytest.mark.parametrize(
    ("flags", "said", "mend"),
    [
        (_flags("read,+bash"), "mixes 'read'", "either names or changes"),
        (_flags("-bash,edit"), "mixes 'edit'", "either names or changes"),
        (_flags("raed"), "no tool 'raed'", "Did you mean read?"),
        (_flags("+bsh"), "no tool 'bsh'", "Did you mean bash?"),
        (_flags("-xyzzy"), "no tool 'xyzzy'", "Known: read, edit"),
        (_flags("+bash,-bash"), "both adds and removes bash", "Keep one"),
        (_flags(""), "empty name", "--no-tools"),
        (_flags("read,,bash"), "empty name", "--no-tools"),
        (_flags("+"), "empty name", "--no-tools"),
        (_flags("read", none=True), "--tools and --no-tools", "Choose one"),
        (_flags("read", no_builtin=True), "--no-builtin-tools and --tools read", "Leave one away"),
        (_flags("+bash", no_builtin=True), "--no-builtin-tools and --tools bash", "Leave one away"),
    ],
)
def test_what_contradicts_is_named(flags: ToolFlags, said: str, mend: str) -> None:
    """One sentence with both sides, or with the nearest name."""
    with pytest.raises(UsageError) as caught:
        choose_tools(CATALOGUE, flags, RECORDED)
    assert said in caught.value.message
    assert mend in caught.value.mend


def test_what_stays_off_is_said() -> None:
    """Asked for but excluded, asked for but not allowed, recorded but gone: one line each, no error."""
    parent = Restriction(_set("read bash"))
    found = choose_tools(CATALOGUE, _flags("read,bash,web", out="bash"), None, kind="stage", parent=parent)
    assert found == Tools(
        ("read",),
        ("Tools that stay off, excluded: bash.", "Tools that stay off, not allowed by the parent: web."),
    )
    gone = choose_tools(CATALOGUE, _flags(), {"read", "lsp", "ast"})
    assert gone == Tools(("read",), ("Tools of this session that are not here: ast, lsp.",))


@pytest.mark.parametrize(
    ("flags", "parent", "expected"),
    [
        (_flags(), FREE, FREE),
        (_flags("read,web"), FREE, Restriction(_set("read web"))),
        (_flags("read,web"), Restriction(_set("read bash")), Restriction(_set("read"))),
        (_flags("+bash,-web"), FREE, Restriction(None, _set("web"))),
        (_flags(none=True), FREE, Restriction(_set(""))),
        (_flags(none=True), Restriction(_set("read")), Restriction(_set(""))),
        (_flags(no_builtin=True), FREE, Restriction(None, _set("read edit bash"))),
        (
            _flags(out="web"),
            Restriction(_set("web"), _set("bash")),
            Restriction(_set("web"), _set("web bash")),
        ),
    ],
)
def test_what_children_may(flags: ToolFlags, parent: Restriction, expected: Restriction) -> None:
    """A launch hands its restrictions on, never more than its own parent allows."""
    assert for_children(flags, CATALOGUE, parent) == expected


SETS = st.frozensets(st.sampled_from(NAMES))
FLAGS = st.builds(
    ToolFlags,
    st.none()
    | st.lists(st.sampled_from(["read", "web", "+bash", "-read", "+web"]), min_size=1).map(",".join),
    st.booleans(),
    st.booleans(),
    SETS,
)


@given(FLAGS, st.none() | SETS, st.sampled_from(["main", "stage", "subagent"]), st.none() | SETS, SETS)
def test_nothing_gets_past_an_exclusion(
    flags: ToolFlags,
    recorded: Collection[str] | None,
    kind: Kind,
    allowed: frozenset[str] | None,
    excluded: frozenset[str],
) -> None:
    """Whatever was asked for or recorded: excluded tools are off, the parent's list holds for all that are not the
    child's own, and children of children get no more."""
    parent = Restriction(allowed, excluded)
    try:
        found = choose_tools(CATALOGUE, flags, recorded, kind=kind, parent=parent)
    except UsageError:
        with pytest.raises(UsageError):
            read_tools(flags, CATALOGUE)
        return
    active = set(found.active)
    assert not active & (flags.excluded | excluded)
    assert allowed is None or active <= allowed | CATALOGUE.own
    assert not (flags.no_tools and active)
    assert not (flags.no_builtin_tools and active & CATALOGUE.builtin)
    handed_on = for_children(flags, CATALOGUE, parent)
    assert excluded <= handed_on.excluded
    assert allowed is None or (handed_on.allowed is not None and handed_on.allowed <= allowed)
