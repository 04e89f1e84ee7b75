"""Lines of Codex sessions (rollouts) to views. Reads, never writes.

A rollout is a log: no line has an id, each stands below the one before it (`scan`). What was said is in
its response items; its events say the same again for the screen and are no messages.
Facts: formats/native-agents.md sections 2 and 8.2 (0.50 to 0.171).
"""

import msgspec
from msgspec import Raw

from atomic_sessions.entry import Text, Usage, View
from atomic_sessions.formats.codex_items import item_view, message_view, plain_view, raw_items
from atomic_sessions.formats.codex_origin import is_bare_meta, time_of
from atomic_sessions.formats.codex_records import (
    COMPACTED,
    EVENT,
    INFO,
    ITEM,
    LINE,
    META,
    NONE,
    TURN,
    Turn,
)
from atomic_sessions.formats.lines import decode

NAMES = ("codex",)

RECORDS = frozenset(
    {"session_meta", "response_item", "request_item", "event_msg", "turn_context", "compacted", "world_state"}
)
"""The types of lines that tell a file as a rollout."""


_OPAQUE = frozenset({"compaction", "context_compaction", "compaction_summary"})


def view(raw: bytes) -> View:
    """What one line says."""
    line, damaged = decode(raw, LINE)
    if line is None:
        return View(kind="damaged", in_context=False, damaged=True)
    at = time_of(line.timestamp)
    payload = bytes(line.payload)
    match line.type:
        case "session_meta":
            found = _session(payload)
        case "response_item" | "request_item":
            found = item_view(payload)
        case "event_msg":
            found = _event(payload)
        case "compacted":
            found = _compacted(payload)
        case "turn_context":
            turn, _ = decode(payload, TURN)
            found = _settings("turn_context", turn)
        case "":
            found = _session(raw) if is_bare_meta(line) else plain_view(line.record_type or "unknown")
        case _:
            found = item_view(raw) if line.payload == NONE else plain_view(line.type)
    return msgspec.structs.replace(found, at=at, damaged=damaged)


def _session(payload: bytes) -> View:
    meta, _ = decode(payload, META)
    if meta is None:
        return plain_view("session_meta")
    return View(
        kind="session_meta",
        typed=False,
        cwd=meta.cwd or "",
        provider=meta.model_provider or "",
        in_context=False,
    )


def _settings(kind: str, turn: Turn | None) -> View:
    if turn is None:
        return plain_view(kind)
    return View(
        kind=kind,
        typed=False,
        model=turn.model or "",
        provider=turn.model_provider_id or "",
        cwd=turn.cwd or "",
        in_context=False,
    )


def _event(payload: bytes) -> View:
    event, _ = decode(payload, EVENT)
    if event is None or not event.type:
        return plain_view("event_msg")
    kind = f"event/{event.type}"
    match event.type:
        case "thread_name_updated":
            return plain_view("session_info", (event.thread_name or "").strip())
        case "thread_settings_applied":
            turn, _ = decode(bytes(event.thread_settings), TURN)
            return _settings(kind, turn)
        case "token_count":
            return _tokens(kind, event.info)
        case "turn_aborted":
            return plain_view(kind, event.reason or "")
        case "error" | "stream_error" | "warning":
            return plain_view(kind, event.message or "")
        case "thread_rolled_back":
            return plain_view(kind, "" if event.num_turns is None else f"{event.num_turns} turns")
    return plain_view(kind)


def _tokens(kind: str, raw: Raw) -> View:
    """The last answer's tokens. The event comes again with every news of limits; equal totals are one
    answer (`group`)."""
    info, _ = decode(bytes(raw), INFO)
    if info is None or info.last_token_usage is None:
        return plain_view(kind)
    last, total = info.last_token_usage, info.total_token_usage
    usage = Usage(
        max(0, last.input_tokens - last.cached_input_tokens),
        last.output_tokens,
        last.cached_input_tokens,
        last.cache_write_input_tokens,
    )
    group = "" if total is None else f"tokens/{total.input_tokens}/{total.output_tokens}"
    return View(kind=kind, typed=False, usage=usage, in_context=False, group=group)


def _compacted(payload: bytes) -> View:
    """The history starts over with this. One that only the provider can read is no text and starts
    nothing: what came before it stays the context."""
    found, _ = decode(payload, COMPACTED)
    if found is None:
        return plain_view("compacted")
    message = (found.message or "").strip()
    said: list[str] = []
    opaque = False
    for raw in raw_items(found.replacement_history):
        item, _ = decode(raw, ITEM)
        if item is None:
            continue
        opaque |= item.type in _OPAQUE
        if item.type == "message" and item.role in {"user", "assistant"}:
            one = message_view(item)
            text = one.spoken().strip() if one.role in {"user", "assistant"} else ""
            if text:
                said.append(text if message and message in text else f"[{item.role.title()}]: {text}")
    if message and not any(message in text for text in said):
        said.append(message)
    text = "\n\n".join(said)
    return View(
        "compacted",
        "summary",
        blocks=(Text(text),) if text else (),
        typed=False,
        in_context=bool(text) and (bool(message) or not opaque),
    )


def without_instructions(raw: bytes) -> bytes:
    """A `compacted` line with no more than what was said: the history it repeats begins with the
    instructions and surroundings that are left out elsewhere too."""
    line, _ = decode(raw, LINE)
    found, _ = decode(bytes(line.payload), COMPACTED) if line is not None else (None, True)
    if line is None or found is None:
        return b'{"type":"compacted"}'
    kept = [Raw(item) for item in raw_items(found.replacement_history) if item_view(item).kind == "message"]
    payload: dict[str, object] = {"message": found.message or ""}
    if found.replacement_history != NONE:
        payload["replacement_history"] = kept
    return msgspec.json.encode({"timestamp": line.timestamp, "type": "compacted", "payload": payload})
