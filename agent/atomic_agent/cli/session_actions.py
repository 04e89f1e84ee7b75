"""`atomic sessions info | rename | delete | fork | clone`: what the interactive program does with a session."""

import argparse
import os
from collections.abc import Iterator

from atomic_agent.cli.selection import busy
from atomic_agent.cli.storage import Launch
from atomic_agent.cli.terminal import clip, confirm, emit_json, here, now_ms, one_line, safe, say
from atomic_agent.projects import display
from atomic_agent.stores import marks
from atomic_agent.stores.rows import Row
from atomic_agent.turns import copies
from atomic_agent.turns.history import reader
from atomic_sessions.clock import iso
from atomic_sessions.entry import Node
from atomic_sessions.errors import UsageError
from atomic_sessions.html.totals import Totals, count, totals

MESSAGE_COLUMNS = 90


def run(launch: Launch, options: argparse.Namespace) -> int:
    match options.action:
        case "info":
            return _info(launch, _one(launch, options), options)
        case "rename":
            return _rename(launch, options)
        case "delete":
            return _delete(launch, options)
        case "fork":
            return _fork(launch, _one(launch, options), options)
    return _told(launch, copies.clone(launch.store, _one(launch, options).key, now_ms()), options)


def _found(launch: Launch, wanted: str) -> Row:
    return launch.store.find(wanted, launch.store.project_of(here()))


def _one(launch: Launch, options: argparse.Namespace) -> Row:
    if len(options.words) != 1:
        raise UsageError(
            f"`{options.action}` takes one session.", f"Say it like this: atomic sessions {options.action} ID"
        )
    return _found(launch, options.words[0])


def _rename(launch: Launch, options: argparse.Namespace) -> int:
    if len(options.words) < 2:
        raise UsageError(
            "`rename` takes a session and a name.",
            'Say it like this: atomic sessions rename ID "a name"; an empty name ("") takes it away.',
        )
    row = _found(launch, options.words[0])
    name = " ".join(" ".join(options.words[1:]).split())
    _refuse_held(launch, row)
    launch.store.open(row.key)
    marks.rename(launch.store, row.key, name, now_ms())
    _sync(launch)
    changed = launch.store.get(row.key) or row
    if options.json:
        from atomic_agent.cli.sessions import listed

        emit_json(listed(launch, changed))
    else:
        print(
            f"{changed.facts.id} is called '{safe(name)}' now."
            if name
            else f"{changed.facts.id} has no name now."
        )
    return 0


def _delete(launch: Launch, options: argparse.Namespace) -> int:
    if not options.words:
        raise UsageError("Name the sessions to delete.", "Say it like this: atomic sessions delete ID…")
    for wanted in options.words:
        row = _found(launch, wanted)
        _refuse_held(launch, row)
        label = f"'{one_line(row.label)[:60]}' ({row.messages} messages)"
        confirm(f"Delete {label} {_reach(launch, row)}", yes=options.yes)
        launch.store.delete(row.key)
        later = " The other machines follow with their next sync." if launch.syncs else ""
        if options.json:
            emit_json({"deleted": row.facts.id, "agent": row.facts.agent})
        else:
            print(f"Deleted {one_line(row.facts.id)}.{later}")
    _sync(launch)
    return 0


def _reach(launch: Launch, row: Row) -> str:
    """How far a deletion reaches, for the question."""
    if launch.journal is not None and row.place:
        return "from this list, for ever? Its file stays as it is."
    if launch.journal is not None:
        return "on all machines, for ever? Files of the agent that wrote it stay."
    if row.place:
        several = f" and {row.copies - 1} more copies" if row.copies > 1 else ""
        return f"with its file {safe(row.place)}{several}?"
    return f"from {safe(launch.store.name)}?"


def _refuse_held(launch: Launch, row: Row) -> None:
    held = launch.store.holder(row.key)
    if held is not None:
        raise busy(held)


def _sync(launch: Launch) -> None:
    if launch.journal is not None and launch.syncs:
        from atomic_agent.sync.background import sync_quietly

        sync_quietly(launch.journal, seconds=float(os.environ.get("ATOMIC_SYNC_WAIT", "5")))


def _fork(launch: Launch, row: Row, options: argparse.Namespace) -> int:
    if options.at is None:
        return _told(launch, copies.whole(launch.store, row.key, now_ms()), options)
    made, text = copies.before(launch.store, row.key, options.at, now_ms())
    return _told(launch, made, options, prompt=text)


def _told(launch: Launch, row: Row, options: argparse.Namespace, *, prompt: str | None = None) -> int:
    """Say what was made and how to go on in it; `prompt` is what a person may want to say anew."""
    _sync(launch)
    back = launch.way_back(row.facts.id)
    if options.json:
        from atomic_agent.cli.sessions import listed

        emit_json({"session": listed(launch, row), "prompt": prompt, "resume": back})
        return 0
    print(row.facts.id)
    if back is not None:
        say(f"Go on in it: {back}")
    if prompt is not None:
        say("What stood there next:")
        say(safe(prompt))
    return 0


def _info(launch: Launch, row: Row, options: argparse.Namespace) -> int:
    if options.messages:
        for entry, text in copies.messages(launch.store, row):
            if options.json:
                emit_json({"entry": entry.id, "parent": entry.parent, "text": text})
            else:
                print(f"{one_line(entry.id)}  {clip(one_line(text), MESSAGE_COLUMNS)}")
        return 0
    added = totals(_nodes(launch, row))
    row = launch.store.get(row.key) or row  # the rest of a large file is known by now
    if options.json:
        emit_json(_as_json(launch, row, added))
    else:
        _print(launch, row, added)
    return 0


def _nodes(launch: Launch, row: Row) -> Iterator[Node]:
    view = reader(row.facts.agent, internal=row.facts.internal)
    for entry in launch.store.read(row.key):
        if not entry.loose:
            yield Node(entry.id, entry.parent, entry.stamp, view(entry.raw))


def _as_json(launch: Launch, row: Row, added: Totals) -> dict[str, object]:
    from atomic_agent.cli.sessions import listed

    usage = added.usage
    return {
        "session": listed(launch, row),
        "user": added.user,
        "assistant": added.assistant,
        "tool_calls": added.calls,
        "tool_results": added.results,
        "models": list(added.models),
        "tokens": {
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "total": usage.input + usage.output + usage.cache_read + usage.cache_write,
        },
        "cost": usage.cost,
        "branches": launch.store.ends(row.key),
        "store": launch.store.name,
        "resume": launch.way_back(row.facts.id),
    }


def _print(launch: Launch, row: Row, added: Totals) -> None:
    facts, usage = row.facts, added.usage
    lines = [
        ("id", facts.id or '""'),
        ("name", row.name),
        ("agent", facts.agent + (", a workflow's or sub-agent's" if facts.internal else "")),
        ("folder", facts.cwd),
        ("project", display(facts.project)),
        ("parent", facts.parent),
        ("begun", iso(facts.created_at)),
        ("newest", iso(row.newest_at)),
        (
            "messages",
            f"{row.messages} ({added.user} yours, {added.assistant} answers, {added.results} tool results)",
        ),
        ("branches", str(launch.store.ends(row.key))),
        ("models", ", ".join(added.models)),
        (
            "tokens",
            " ".join(
                (
                    f"{count(usage.input)} in, {count(usage.output)} out,",
                    f"cache {count(usage.cache_read)} read and {count(usage.cache_write)} written",
                )
            ),
        ),
        ("cost", f"${usage.cost:.3f}"),
        ("store", launch.store.name),
        ("file", row.place + (f" and {row.copies - 1} more copies" if row.copies > 1 else "")),
        ("resume", launch.way_back(facts.id) or ""),
    ]
    for name, value in lines:
        if value:
            print(f"{name:<9} {one_line(value)}")
