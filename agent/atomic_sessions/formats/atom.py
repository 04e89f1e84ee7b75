"""The Atom file: one JSON object that holds one session. Bytes to a document and back. Pure, and never raises.

Facts: formats/atomic-sessions.md section 7.5. The shape: `{version: 1, savedAt, provider, model, effort, mode,
usageTotals, history, turns}`. Members that are unknown here, and numbers of any size, stay as they were written;
what the messages of `history` say is `formats.atom_history`'s.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from atomic_sessions.clock import iso, parse_time
from atomic_sessions.context import Settings
from atomic_sessions.entry import Usage

VERSION = 1
MAX_BYTES = 64 * 1024 * 1024
"""Larger than any history a model reads; a file beyond it is not looked at."""

MAX_DEPTH = 100
"""More than any message nests; what reads one recurses."""

NORMAL = "normal"
_PICKS = ("provider", "model", "effort")
_LISTS = ("history", "turns")
_ORDER = ("version", "savedAt", *_PICKS, "mode", "usageTotals", *_LISTS)
_TOTALS = {
    "input": ("inputTokens", "promptTokens", "prompt_tokens", "input_tokens"),
    "output": ("outputTokens", "completionTokens", "completion_tokens", "output_tokens"),
    "cacheRead": ("cacheReadTokens", "cachedTokens", "cache_read_input_tokens"),
    "cacheWrite": ("cacheWriteTokens", "cache_creation_input_tokens"),
    "cost": ("costUsd", "totalCost"),
}
"""Our name of each total, and other names programs have for it; the one that is there is used."""

_SPACE = re.compile(r"[ \t\n\r]*+")
_STRING_OR_SPACE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|[ \t\n\r]++')


class Number(Struct, frozen=True):
    """A JSON number as it was written: no size is too great, and 1 is not 1.0."""

    text: str


class Document(Struct, frozen=True):
    """What an Atom file holds. `members` are all but the two lists, as JSON text; `history` and `turns` hold
    one compact JSON text for each item. Never shown: a person may have typed secrets."""

    members: Mapping[str, str]
    history: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()
    picks: Settings = Settings()
    mode: str = NORMAL
    saved_at: int = 0
    usage: Usage = Usage()

    def __repr__(self) -> str:
        return f"Document({len(self.history)} messages)"


class Missing(Struct, frozen=True):
    """There is no file: a fresh start, nothing to say."""


class Corrupt(Struct, frozen=True):
    """There is a file that is no session: a fresh start, and one line that says so. `why` repeats nothing of it."""

    why: str


class Loaded(Struct, frozen=True):
    """A session."""

    document: Document


State = Missing | Corrupt | Loaded


class _MalformedError(Exception):
    """Why a file is no Atom file."""


def load(raw: bytes | None) -> State:
    """The state of a file with this content; None for no file."""
    if raw is None:
        return Missing()
    if len(raw) > MAX_BYTES:
        return Corrupt(f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        return Loaded(_document(raw.decode("utf-8-sig")))
    except _MalformedError as error:
        return Corrupt(str(error))
    except UnicodeDecodeError:
        return Corrupt("it is not UTF-8 text")
    except json.JSONDecodeError as error:
        return Corrupt(f"it is not valid JSON (line {error.lineno}, column {error.colno})")
    except RecursionError:
        return Corrupt("it is nested too deeply")
    except ValueError:
        return Corrupt("it is not valid JSON")


def _document(text: str) -> Document:
    values: dict[str, Any] = {}
    members: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    for name, at in _fields(text):  # of a name that comes twice the last counts, as for every JSON reader
        if name in _LISTS:
            lists[name] = tuple(_items(text, at, name))
            members[name] = ""
            continue
        values[name], end = DECODER.raw_decode(text, at)
        members[name] = compact(text[at:end])
    if values.get("version") != Number(str(VERSION)):
        raise _MalformedError(f"it is not of version {VERSION}")
    if "history" not in lists:
        raise _MalformedError('it has no "history"')
    return Document(
        members,
        lists["history"],
        lists.get("turns", ()),
        Settings(_text(values, "provider"), _text(values, "model"), _text(values, "effort")),
        _text(values, "mode") or NORMAL,
        _saved_at(values.get("savedAt")),
        _usage(values.get("usageTotals")),
    )


def _reject(token: str) -> None:
    raise ValueError(token)


DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_reject)


def _fields(text: str) -> Iterator[tuple[str, int]]:
    """Names of the object's members and where their values begin."""
    at = _expect(text, 0, "{", "it is no JSON object")
    if text[at : at + 1] == "}":
        end = at + 1
    else:
        while True:
            if text[at : at + 1] != '"':
                raise _MalformedError("it is no JSON object")
            name, end = DECODER.raw_decode(text, at)
            at = _expect(text, end, ":", "it is no JSON object")
            yield name, at
            _, end = DECODER.raw_decode(text, at)
            at = _skip(text, end)
            if text[at : at + 1] != ",":
                break
            at = _skip(text, at + 1)
        end = _expect(text, at, "}", "it breaks off")
    if _skip(text, end) != len(text):
        raise _MalformedError("something follows its end")


def _items(text: str, at: int, name: str) -> Iterator[str]:
    """The items of a list as compact JSON; those of `history` have to be messages."""
    at = _expect(text, at, "[", f'"{name}" is no list')
    if text[at : at + 1] == "]":
        return
    while True:
        value, end = DECODER.raw_decode(text, at)
        if name == "history" and not (isinstance(value, dict) and isinstance(value.get("role"), str)):
            raise _MalformedError('"history" holds what is no message')
        if name == "history" and _is_deep(value):
            raise _MalformedError("it is nested too deeply")
        yield compact(text[at:end])
        at = _skip(text, end)
        if text[at : at + 1] != ",":
            break
        at = _skip(text, at + 1)
    _expect(text, at, "]", f'"{name}" breaks off')


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, character: str, why: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != character:
        raise _MalformedError(why)
    return _skip(text, at + 1)


def compact(text: str) -> str:
    """Valid JSON without the space between its tokens; the tokens stay as they are written."""
    return _STRING_OR_SPACE.sub(lambda found: found[1] or "", text)


def _text(values: Mapping[str, Any], name: str) -> str:  # JSON of any shape
    value = values.get(name)
    if not isinstance(value, str | None):
        raise _MalformedError(f'"{name}" is no text')
    return value or ""


def _saved_at(value: object) -> int:
    if value is None:
        return 0
    if not isinstance(value, str | Number):
        raise _MalformedError('"savedAt" is no time')
    return parse_time(_number(value) if isinstance(value, Number) else value) or 0


def _usage(value: object) -> Usage:
    if value is None:
        return Usage()
    if not isinstance(value, dict):
        raise _MalformedError('"usageTotals" is no object')
    found = {name: _number(value.get(total_name(value, name))) for name in _TOTALS}
    whole = {name: int(found[name]) for name in ("input", "output", "cacheRead", "cacheWrite")}
    return Usage(
        whole["input"], whole["output"], whole["cacheRead"], whole["cacheWrite"], float(found["cost"])
    )


def total_name(totals: Mapping[str, object], name: str) -> str:
    """What this file calls one of our totals."""
    return next((other for other in (name, *_TOTALS[name]) if other in totals), name)


def _number(value: object) -> float:
    """The number, 0 when it is none or beyond a total's measure."""
    if not isinstance(value, Number) or len(value.text) > 32:
        return 0.0
    found = float(value.text)
    return found if 0 <= found < 1 << 53 else 0.0


def encode(document: Document) -> bytes:
    """The file's content, all members in their order."""
    lists = {"history": document.history, "turns": document.turns}
    parts = [
        f"{json.dumps(name)}:[{','.join(lists[name])}]" if name in lists else f"{json.dumps(name)}:{raw}"
        for name, raw in document.members.items()
    ]
    return f"{{{','.join(parts)}}}".encode()


def fresh() -> Document:
    """A document that nothing was said in."""
    members = dict.fromkeys(_ORDER, '""') | {"version": str(VERSION), "mode": json.dumps(NORMAL)}
    return Document(members | {"usageTotals": "{}"})


def with_picks(old: Document | None, picks: Settings, at: int) -> Document:
    """What a clean exit saves: provider, model, effort; the conversation in the file stays (A7)."""
    return _saved(old or fresh(), picks, at)


def with_session(
    old: Document | None,
    history: Sequence[str],
    turns: Sequence[str],
    picks: Settings,
    usage: Usage,
    mode: str,
    at: int,
) -> Document:
    """What a completed turn saves. `usage` is the whole session's; unknown members and totals stay."""
    before = old or fresh()
    totals = _totals(before.members.get("usageTotals", "{}"), usage)
    members = {**before.members, "mode": json.dumps(mode), "usageTotals": totals, "turns": ""}
    with_all = replace(
        before, members=members, history=tuple(history), turns=tuple(turns), mode=mode, usage=usage
    )
    return _saved(with_all, picks, at)


def _saved(document: Document, picks: Settings, at: int) -> Document:
    was_number = document.members.get("savedAt", '"')[:1] != '"'
    new = {"savedAt": str(at) if was_number else json.dumps(iso(at))}
    new |= {name: json.dumps(getattr(picks, name)) for name in _PICKS}
    held = Settings(picks.provider, picks.model, picks.effort)  # the file has no place for more
    return replace(document, members={**document.members, **new}, picks=held, saved_at=at)


def _totals(before: str, usage: Usage) -> str:
    values = DECODER.decode(before)
    totals: dict[str, str] = {}
    if isinstance(values, dict):
        totals = {name: compact(before[at:end]) for name, at, end in _spans(before)}
    named = {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "cost": usage.cost if math.isfinite(usage.cost) else 0,
    }
    for name, value in named.items():
        totals[total_name(totals, name)] = json.dumps(value)
    return f"{{{','.join(f'{json.dumps(name)}:{raw}' for name, raw in totals.items())}}}"


def _spans(text: str) -> Iterator[tuple[str, int, int]]:
    for name, at in _fields(text):
        yield name, at, DECODER.raw_decode(text, at)[1]


def member(line: str, wanted: str) -> str | None:
    """The JSON text of one member of an object; None when it is not there or the text is no object."""
    found = None
    try:
        for name, at, end in _spans(line):
            if name == wanted:
                found = compact(line[at:end])
    except (ValueError, RecursionError, _MalformedError):
        return None
    return found
