"""What a model is sent from any leaf of a session (formats/atomic-sessions.md section 7.3), whatever store keeps it."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec import Struct

from agent.sdk.conftest import Shelf
from agent.sdk.scripted import Model, answer, result, told, user
from atomic_agent.sdk import (
    Image,
    NotFoundError,
    SessionManager,
    Settings,
    create_agent_session,
)
from atomic_agent.stores.memory import MemoryStore
from atomic_sessions.context import BRANCH_PREFACE, COMPACTION_PREFACE
from atomic_sessions.pairing import INTERRUPTED

PICTURE = {"type": "image", "data": "eA==", "mimeType": "image/png"}


class Case(Struct, frozen=True):
    """Entries one below the other, and what a model reads of them."""

    entries: tuple[tuple[str, Mapping[str, Any]], ...]
    read: tuple[tuple[str, str], ...]


def said(*messages: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return tuple(("message", {"message": message}) for message in messages)


CASES = {
    "messages in their order": Case(
        said(user("a"), answer("b"), user("c")),
        (("user", "a"), ("assistant", "b"), ("user", "c")),
    ),
    "a call with its result": Case(
        said(user("a"), answer("b", "c1", stop="toolUse"), result("c1", "done")),
        (("user", "a"), ("assistant", "b call c1"), ("tool", "c1=done")),
    ),
    "unanswered at the end": Case(
        said(user("a"), answer("b", "c1", stop="toolUse")),
        (("user", "a"), ("assistant", "b call c1"), ("tool", f"c1={INTERRUPTED}")),
    ),
    "one of two unanswered, and a later turn": Case(
        said(user("a"), answer("b", "c1", "c2", stop="toolUse"), result("c2", "done"), user("d")),
        (
            ("user", "a"),
            ("assistant", "b call c1 call c2"),
            ("tool", f"c1={INTERRUPTED} c2=done"),
            ("user", "d"),
        ),
    ),
    "a result that comes late": Case(
        said(answer("b", "c1", stop="toolUse"), user("wait"), result("c1", "late")),
        (("assistant", "b call c1"), ("tool", "c1=late"), ("user", "wait")),
    ),
    "the first of several results": Case(
        said(answer("b", "c1", stop="toolUse"), result("c1", "first"), result("c1", "again")),
        (("assistant", "b call c1"), ("tool", "c1=first")),
    ),
    "a result nobody asked for": Case(
        said(user("a"), result("nobody", "x"), answer("b")), (("user", "a"), ("assistant", "b"))
    ),
    "a custom message as the person's": Case(
        (
            ("custom_message", {"customType": "x", "content": "note", "display": True}),
            ("custom_message", {"customType": "x", "content": "not drawn", "display": False}),
        ),
        (("user", "note"), ("user", "not drawn")),
    ),
    "what is excluded, and what is blank": Case(
        (
            (
                "custom_message",
                {"customType": "x", "content": "no", "display": True, "excludeFromContext": True},
            ),
            ("custom_message", {"customType": "x", "content": "  ", "display": True}),
            ("custom", {"customType": "x", "data": "no"}),
            *said(
                {
                    "role": "bashExecution",
                    "command": "ls",
                    "output": "no",
                    "exitCode": 0,
                    "excludeFromContext": True,
                },
                user(" "),
                {"role": "user", "content": None},
            ),
        ),
        (),
    ),
    "a command the person ran": Case(
        said({"role": "bashExecution", "command": "ls", "output": "f", "exitCode": 1}),
        (("user", "I ran this command:\n$ ls\nf\n(exit code 1)"),),
    ),
    "a branch summary, and a blank one": Case(
        (
            ("branch_summary", {"fromId": "root", "summary": "tried"}),
            ("branch_summary", {"fromId": "root", "summary": " "}),
        ),
        (("user", f"{BRANCH_PREFACE}\n\n<summary>\ntried\n</summary>"),),
    ),
    "marks and settings": Case(
        (
            *said(user("a")),
            ("session_info", {"name": "n"}),
            ("model_change", {"provider": "p", "modelId": "m"}),
            ("thinking_level_change", {"thinkingLevel": "low"}),
            ("context_window_change", {"contextWindow": 9}),
            ("not_known_yet", {"summary": "x", "content": "x", "message": user("x")}),
        ),
        (("user", "a"),),
    ),
    "retired compactions": Case(
        (
            *said(user("a")),
            ("compaction", {"summary": "prose", "firstKeptEntryId": None, "tokensBefore": 1}),
            (
                "context_compaction",
                {
                    "promptVersion": 1,
                    "deletedTargets": [{"kind": "entry", "entryId": "x"}],
                    "protectedEntryIds": [],
                    "stats": {},
                },
            ),
            *said(answer("b")),
        ),
        (("user", "a"), ("assistant", "b")),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_read(case: Case) -> None:
    """Each kind of entry says this to a model."""
    manager = SessionManager.create(MemoryStore())
    for kind, members in case.entries:
        manager.append(kind, **members)
    assert told(manager.context().messages) == list(case.read)


def compacted(kept: Callable[[list[str]], str | None]) -> Callable[[SessionManager], list[str]]:
    """Three turns, the second with a picture and a tool, then a compaction that keeps from an entry on."""

    def make(manager: SessionManager) -> list[str]:
        added = [
            manager.append_message(user("one")),
            manager.append_message(answer("1")),
            manager.append_message({"role": "user", "content": [{"type": "text", "text": "two"}, PICTURE]}),
            manager.append_message(answer("2", "c1", stop="toolUse")),
            manager.append_message(result("c1", "x" * 20_000)),
        ]
        added.append(manager.append_compaction("[User]: one\n(filtered 3 lines)", kept(added), 99))
        added.append(manager.append_message(user("three")))
        return added

    return make


def test_kept_entries_stand_behind_the_summary(shelf: Shelf) -> None:
    """In one message, line for line, tool text whole and pictures as pictures; nothing older comes back."""
    manager = SessionManager.create(shelf.store)
    compacted(lambda added: added[2])(manager)
    manager.close()
    messages = SessionManager.open(shelf.again(), manager.id).context().messages
    first, second = messages
    text = getattr(first.blocks[0], "text", "")
    assert text == (
        f"{COMPACTION_PREFACE}\n\n[User]: one\n(filtered 3 lines)\n\n[User]: two\n\n[User]: [image]\n\n"
        f"[Assistant]: 2\n\n[Assistant tool calls]: bash({{}})\n\n[Tool result]: {'x' * 20_000}"
    )
    assert first.blocks[1:] == (Image("image/png", "eA=="),)
    assert told((second,)) == [("user", "three")]


@pytest.mark.parametrize("kept", [lambda _: None, lambda added: added[0]], ids=["null", "not on the path"])
def test_nothing_kept_is_the_summary_alone(kept: Callable[[list[str]], str | None], shelf: Shelf) -> None:
    """A null id, and one of another branch, keep nothing; older entries never come back."""
    manager = SessionManager.create(shelf.store)
    off = [manager.append_message(user("another branch"))]
    manager.reset()
    compacted(lambda added: kept(off))(manager)
    manager.close()
    again = SessionManager.open(shelf.again(), manager.id)
    assert told(again.context().messages) == [
        ("user", f"{COMPACTION_PREFACE}\n\n[User]: one\n(filtered 3 lines)"),
        ("user", "three"),
    ]


def test_a_compaction_holds_on_its_branch_alone(shelf: Shelf) -> None:
    """From a leaf before it, or beside it, the whole is read."""
    manager = SessionManager.create(shelf.store)
    added = compacted(lambda _: None)(manager)
    assert told(manager.context(added[1]).messages) == [("user", "one"), ("assistant", "1")]
    manager.branch(added[1])
    manager.append_message(user("beside"))
    assert told(manager.context().messages)[-1] == ("user", "beside")
    assert told(manager.context(added[6]).messages)[0][1].startswith(COMPACTION_PREFACE)
    with pytest.raises(NotFoundError):
        manager.context("nowhere")


def test_settings_are_those_of_the_path(shelf: Shelf) -> None:
    """The last model that was chosen or answered, the last level, the last set of tools; also from before a
    compaction, and none of another branch."""
    manager = SessionManager.create(shelf.store)
    assert manager.context().settings == Settings()
    first = manager.append_message(user("a"))
    manager.append_model_change("openai", "gpt")
    manager.append_thinking_level_change("high")
    manager.append_active_tools_change(["read", "grep"])
    manager.append_compaction("[User]: a", None, 9)
    last = manager.append_message(answer("b"))
    wanted = Settings("anthropic", "m", "high", ("read", "grep"))
    assert manager.context().settings == wanted
    manager.branch(first)
    assert manager.context().settings == Settings()
    manager.close()
    assert SessionManager.open(shelf.again(), manager.id).context(last).settings == wanted


def test_thinking_goes_back_to_anthropic_alone() -> None:
    """Signed thinking of its own is read by Anthropic and by nobody else."""
    manager = SessionManager.create(MemoryStore())
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}
    manager.append_message({**answer("b"), "content": [thought, {"type": "text", "text": "b"}]})
    assert told(manager.context(provider="anthropic").messages) == [("assistant", "hm b")]
    assert told(manager.context(provider="openai").messages) == [("assistant", "b")]


def test_a_prompt_is_sent_this_context(shelf: Shelf) -> None:
    """What the manager calls the context is what the model is asked with, and the prompt."""
    model = Model()
    manager = SessionManager.create(shelf.store)
    compacted(lambda added: added[3])(manager)
    with create_agent_session(session_manager=manager, stream=model, provider="own") as session:
        before = told(manager.context(provider="own").messages)
        session.prompt("four")
    assert told(model.requests[0].messages) == [*before, ("user", "four")]
