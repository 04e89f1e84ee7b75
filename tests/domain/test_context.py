"""A path of entries to what a model is sent: one result for each call, whatever happened to the path."""

import re
from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from atomic_sessions import context
from atomic_sessions.context import build
from atomic_sessions.entry import Block, Image, Node, Shell, Text, Thinking, ToolCall, ToolResult, View
from atomic_sessions.pairing import INTERRUPTED, ContextMessage, alternating

SIGNED = Thinking("hm", "signature")


def node(identity: str, role: str, *blocks: Block, kind: str = "message", **more: object) -> Node:
    view = View(kind, role=role, id=identity, blocks=blocks, **more)  # type: ignore[arg-type]  # test data
    return Node(identity, None, int(re.sub(r"\D", "", identity) or 0), view)


def said(messages: Iterable[ContextMessage]) -> list[tuple[str, str]]:
    """Messages as (role, text): calls as `call ID`, results as `ID=text`."""
    found: list[tuple[str, str]] = []
    for message in messages:
        parts: list[str] = []
        for block in message.blocks:
            match block:
                case Text(text) | Thinking(text):
                    parts.append(text)
                case ToolCall():
                    parts.append(f"call {block.id}")
                case ToolResult():
                    parts.append(
                        f"{block.call}={''.join(p.text for p in block.content if isinstance(p, Text))}"
                    )
                case _:
                    parts.append(type(block).__name__)
        found.append((message.role, " ".join(parts)))
    return found


def result(call: str, text: str) -> ToolResult:
    return ToolResult(call, "bash", (Text(text),))


def test_plain_history_ends_with_the_prompt() -> None:
    """Messages come in path order and the new prompt is last; entries that are no messages say nothing."""
    path = [
        node("1", "", kind="model_change", in_context=False),
        node("2", "user", Text("one")),
        node("3", "assistant", Text("two")),
        node("4", "", kind="label", in_context=False),
    ]
    assert said(build(path, [], "three", provider="openai")) == [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]


def test_last_verbatim_compaction_is_the_boundary() -> None:
    """Before the last compaction that holds nothing is sent but what it kept, written out; inert ones hide
    nothing."""
    path = [
        node("1", "user", Text("old")),
        node("2", "summary", kind="compaction", text="INERT", in_context=False),
        node("3", "user", Text("kept"), Image("image/png", "AA==")),
        node("4", "assistant", Text("answer"), ToolCall("c", "bash", "{}")),
        node("5", "tool", result("c", "output")),
        node("6", "summary", Text("SUMMARY"), kind="compaction", text="SUMMARY", target="3"),
        node("7", "user", Text("new")),
    ]
    first, *rest = build(path, [], "more", provider="openai")
    text = first.blocks[0]
    assert isinstance(text, Text)
    assert text.text == (
        f"{context.COMPACTION_PREFACE}\n\nSUMMARY\n\n[User]: kept\n\n[User]: [image]\n\n[Assistant]: answer"
        "\n\n[Assistant tool calls]: bash({})\n\n[Tool result]: output"
    )
    assert first.blocks[1:] == (Image("image/png", "AA=="),)
    assert said(rest) == [("user", "new"), ("user", "more")]
    assert "old" in str(said(build(path[:5], [], "more", provider="openai")))


def test_unknown_kept_entry_brings_nothing_back() -> None:
    """A compaction whose kept entry is gone or null sends its summary only."""
    for target in ("", "nowhere"):
        path = [
            node("1", "user", Text("old")),
            node("2", "summary", kind="compaction", text="S", target=target),
        ]
        history = build(path, [], "more", provider="openai")
        assert "old" not in str(history)
        assert len(history) == 2


def test_claude_codes_compaction_starts_over_with_its_summary() -> None:
    """After a compact boundary only the summary and what follows is sent, the summary as it stands."""
    path = [
        node("1", "user", Text("old")),
        node("2", "", kind="system/compact_boundary", in_context=False),
        node("3", "summary", Text("This session is being continued"), cwd="/w"),
        node("4", "assistant", Text("on")),
    ]
    assert said(build(path, [], "more", provider="anthropic")) == [
        ("user", "This session is being continued"),
        ("assistant", "on"),
        ("user", "more"),
    ]


def test_other_roles_speak_as_the_user() -> None:
    """Shell commands, extension messages and branch summaries become user messages; excluded and blank ones
    vanish, side chains and system prompts too."""
    path = [
        node("1", "bash", Shell("ls", "a.txt", 1)),
        node("2", "custom", Text("injected")),
        node("3", "summary", Text("went wrong"), kind="branch_summary"),
        node("4", "bash", Shell("secret", ""), in_context=False),
        node("5", "custom", Text("  ")),
        node("6", "system", Text("prompt"), in_context=False),
        node("7", "user", Text("side"), side=True),
    ]
    history = said(build(path, [], "go", provider="openai"))
    assert [role for role, _ in history] == ["user"] * 4
    assert history[0][1].endswith("$ ls\na.txt\n(exit code 1)")
    assert history[1][1] == "injected"
    assert "<summary>\nwent wrong\n</summary>" in history[2][1]


def test_parallel_calls_are_one_answer_with_all_results() -> None:
    """Claude Code spreads an answer over records and hangs each result on its own: the branch that is open
    misses some, and all come back, calls together, results right after them."""
    path = [
        node("1", "user", Text("go")),
        node("2", "assistant", Text("both:"), group="m", provider="anthropic"),
        node("3", "assistant", ToolCall("A", "bash", "{}"), group="m"),
        node("5", "tool", result("A", "a")),
        node("8", "assistant", Text("done"), group="n"),
    ]
    beside = [
        node("4", "assistant", ToolCall("B", "bash", "{}"), group="m"),
        node("6", "tool", result("B", "b")),
        node("7", "tool", result("Z", "of another branch")),
    ]
    assert said(build(path, beside, "next", provider="anthropic")) == [
        ("user", "go"),
        ("assistant", "both: call A call B"),
        ("tool", "A=a B=b"),
        ("assistant", "done"),
        ("user", "next"),
    ]


def test_unanswered_orphaned_and_doubled_results() -> None:
    """The first result of a call counts, orphans and duplicates go, a missing one says that its outcome is
    unknown, and a late one comes back to its call."""
    path = [
        node("1", "tool", result("early", "before its call")),
        node(
            "2",
            "assistant",
            ToolCall("early", "bash", "{}"),
            ToolCall("late", "bash", "{}"),
            ToolCall("none", "x", "{}"),
        ),
        node("3", "user", Text("meanwhile")),
        node("4", "tool", result("late", "first")),
        node("5", "tool", result("late", "second")),
        node("6", "tool", result("orphan", "whose?")),
    ]
    assert said(build(path, [], "next", provider="openai")) == [
        ("assistant", "call early call late call none"),
        ("tool", f"early={INTERRUPTED} late=first none={INTERRUPTED}"),
        ("user", "meanwhile"),
        ("user", "next"),
    ]


def test_repeated_call_ids_become_unique() -> None:
    """Local models call everything `call_0`: each call keeps its own result under an id of its own."""
    path = [
        node("1", "assistant", ToolCall("call_0", "bash", "{}")),
        node("2", "tool", result("call_0", "one")),
        node("3", "assistant", ToolCall("call_0", "bash", "{}")),
        node("4", "tool", result("call_0", "two")),
    ]
    history = build(path, [], "next", provider="openai")
    calls = [b.id for m in history for b in m.blocks if isinstance(b, ToolCall)]
    assert calls[0] == "call_0"
    assert len(set(calls)) == 2
    assert [text.partition("=")[2] for role, text in said(history) if role == "tool"] == ["one", "two"]


def test_thinking_goes_back_to_its_own_provider_only() -> None:
    """Signed thinking of Anthropic goes to Anthropic; to anyone else, or without a signature, it is left out."""
    theirs = node("1", "assistant", SIGNED, Thinking("unsigned"), Text("so"), provider="anthropic")
    others = node("2", "assistant", SIGNED, Text("and"), provider="openai")
    assert said(build([theirs, others], [], "x", provider="anthropic"))[:2] == [
        ("assistant", "hm so"),
        ("assistant", "and"),
    ]
    assert said(build([theirs, others], [], "x", provider="openai"))[:2] == [
        ("assistant", "so"),
        ("assistant", "and"),
    ]


def test_an_answer_of_thinking_alone_is_dropped() -> None:
    """A message no provider takes, with nothing but thinking in it, is left out."""
    history = build([node("1", "assistant", SIGNED, provider="anthropic")], [], "x", provider="anthropic")
    assert said(history) == [("user", "x")]


def test_settings_follow_the_path() -> None:
    """The last model change or answer decides the model, the last level the effort."""
    path = [
        node("1", "", kind="model_change", provider="a", model="m1", text="m1"),
        node("2", "", kind="thinking_level_change", text="high"),
        node("3", "assistant", Text("x"), provider="b", model="m2"),
        node("4", "assistant", Text("x"), provider="b", model="<synthetic>"),
    ]
    assert context.settings(path) == context.Settings("b", "m2", "high")
    assert context.settings([]) == context.Settings()


CALLS = st.sampled_from(["a", "b", "c", "call_0", "x|y", "é", "", "q" * 90])
TEXTS = st.sampled_from(["", "  ", "said", "more"])
BLOCKS = st.one_of(
    TEXTS.map(Text),
    st.just(SIGNED),
    st.just(Thinking("")),
    st.just(Image("image/png", "AA==")),
    CALLS.map(lambda c: ToolCall(c, "bash", "{}")),
    st.tuples(CALLS, TEXTS).map(lambda t: result(*t)),
    st.just(Shell("ls", "")),
)
VIEWS = st.builds(
    View,
    kind=st.sampled_from(
        ["message"] * 8
        + ["compaction", "branch_summary", "custom_message", "label", "system/compact_boundary"]
    ),
    role=st.sampled_from(
        ["user", "assistant", "assistant", "tool", "tool", "bash", "custom", "summary", "system", ""]
    ),
    blocks=st.lists(BLOCKS, max_size=4).map(tuple),
    group=st.sampled_from(["", "", "g1", "g2"]),
    provider=st.sampled_from(["anthropic", "openai", ""]),
    target=st.sampled_from(["", "0", "2", "gone"]),
    in_context=st.sampled_from([True, True, True, False]),
    side=st.sampled_from([False] * 5 + [True]),
    text=TEXTS,
)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[list[Node], list[Node]]:
    """A path and what lies beside it, of any views in any order."""
    views = draw(st.lists(VIEWS, max_size=14))
    nodes = [Node(str(i), None, draw(st.integers(0, 5)), view) for i, view in enumerate(views)]
    on_path = [draw(st.booleans()) for _ in nodes]
    path = [n for n, there in zip(nodes, on_path, strict=True) if there]
    return path, draw(st.sampled_from([nodes, [n for n in nodes if n not in path]]))


def check_pairs(messages: Sequence[ContextMessage]) -> None:
    """Each call has exactly one result right after it, in order, and ids are unique and take-able."""
    seen: set[str] = set()
    for place, message in enumerate(messages):
        calls = [b.id for b in message.blocks if isinstance(b, ToolCall)]
        if calls:
            assert message.role == "assistant"
            after = messages[place + 1]
            results = [b.call for b in after.blocks if isinstance(b, ToolResult)]
            assert results == calls
            assert all(isinstance(b, ToolResult) for b in after.blocks[: len(calls)])
        for call in calls:
            assert call not in seen
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", call)
            seen.add(call)
    answered = [b.call for m in messages for b in m.blocks if isinstance(b, ToolResult)]
    assert sorted(answered) == sorted(seen)


@given(damaged(), st.sampled_from(["anthropic", "openai"]))
@settings(max_examples=400, deadline=None)
def test_any_path_gives_a_history_a_provider_takes(
    nodes: tuple[list[Node], list[Node]], provider: str
) -> None:
    """Whatever is damaged, missing or doubled: pairs hold, nothing is empty, roles alternate from the user to
    the prompt, and thinking is signed and Anthropic's."""
    path, beside = nodes
    history = build(path, beside, "the prompt", provider=provider)
    check_pairs(history)
    assert all(message.blocks for message in history)
    assert history[-1] == ContextMessage("user", (Text("the prompt"),))
    turns = alternating(history)
    check_pairs(turns)
    assert [m.role for m in turns] == ["user", "assistant"] * (len(turns) // 2) + ["user"]
    blocks = [block for message in turns for block in message.blocks]
    assert all(block.text.strip() for block in blocks if isinstance(block, Text))
    assert all(provider == "anthropic" and block.signature for block in blocks if isinstance(block, Thinking))
    for message in turns:
        kinds = (Text, Thinking, ToolCall) if message.role == "assistant" else (Text, Image, ToolResult)
        assert all(isinstance(block, kinds) for block in message.blocks)


@given(damaged())
@settings(max_examples=100, deadline=None)
def test_building_twice_gives_the_same(nodes: tuple[list[Node], list[Node]]) -> None:
    """The history depends on its input alone."""
    path, beside = nodes
    assert build(path, beside, "p", provider="openai") == build(path, beside, "p", provider="openai")
