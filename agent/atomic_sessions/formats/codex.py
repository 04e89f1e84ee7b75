"""Lines of Codex sessions (rollouts) to views, and what their first line says of a file. Reads, never writes.

A rollout is a log: no line has an id, each stands below the one before it (`scan`). What was said is in
its response items; its events say the same again for the screen and are no messages.
Facts: formats/native-agents.md sections 2 and 8.2 (0.50 to 0.171).
"""

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw, Struct

from atomic_sessions.clock import parse_time
from atomic_sessions.entry import Block, Image, Role, Text, Thinking, ToolCall, ToolResult, Usage, View
from atomic_sessions.formats.codex_records import (
    BASE,
    COMPACTED,
    CONTENT,
    EVENT,
    EXIT_CODE,
    INFO,
    ITEM,
    LINE,
    META,
    NONE,
    OUTPUT,
    PART,
    SEARCH,
    SOURCE,
    SPAWN,
    SUBAGENT,
    TURN,
    Item,
    Line,
    Meta,
    Turn,
)
from atomic_sessions.formats.lines import decode
from atomic_sessions.ids import UUID

NAMES = ("codex",)

RECORDS = frozenset(
    {"session_meta", "response_item", "request_item", "event_msg", "turn_context", "compacted", "world_state"}
)
"""The types of lines that tell a file as a rollout."""


_INSTRUCTIONS = (
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
    "<permissions instructions>",
    "<skills_instructions>",
    "<apps_instructions>",
    "<plugins_instructions>",
    "<collaboration_mode>",
    "<personality_spec>",
    "<model_switch>",
    "<skill>",
)
_INJECTED = ("<turn_aborted>", "<user_shell_command>", "<subagent_notification>", "<hook_prompt")
_OPAQUE = frozenset({"compaction", "context_compaction", "compaction_summary"})
_EXIT = re.compile(r"(?:\AExit code: |^Process exited with code )(-?\d+)$", re.MULTILINE)
_EXIT_HEAD = 400
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")
_SECONDS = 100_000_000_000
"""A number below this is a time in seconds, above it in ms."""


class Origin(Struct, frozen=True):
    """What a rollout says of itself. `parent` is the session it was forked from, or whose sub-agent it
    is when it is `internal`."""

    id: str
    cwd: str = ""
    created_at: int | None = None
    parent: str = ""
    internal: bool = False


def origin(lines: Iterable[bytes], file_name: str) -> Origin:
    """What the first lines of a rollout say; the id is empty when neither they nor its name have one.

    The first record counts: a fork repeats that of its source after its own. Where the first line is
    damaged, the name knows better than a record that follows.
    """
    named = "".join(UUID.findall(file_name)[-1:])
    first = True
    for raw in lines:
        if not raw.strip():
            continue
        meta = _meta(raw)
        if meta is not None:
            session_id = meta.id or "" if first else named or meta.id or ""
            if first or session_id == meta.id:
                return _origin(meta, session_id or named, _time(meta.timestamp))
            return Origin(session_id)
        first = False
    return Origin(named)


def _meta(raw: bytes) -> Meta | None:
    line, _ = decode(raw, LINE)
    if line is None:
        return None
    if line.type == "session_meta":
        return decode(bytes(line.payload), META)[0]
    return decode(raw, META)[0] if _is_bare_meta(line) else None


def _is_bare_meta(line: Line) -> bool:
    """The first line of the oldest files: what is now a payload, without an envelope."""
    return not line.type and not line.record_type and line.payload == NONE and line.timestamp is not None


def _origin(meta: Meta, session_id: str, at: int | None) -> Origin:
    source, _ = decode(bytes(meta.source), SOURCE)
    internal = source is not None and source.subagent != NONE
    parent = meta.forked_from_id or ""
    if not parent:
        base, _ = decode(bytes(meta.history_base), BASE)
        parent = (base.thread_id if base is not None else "") or ""
    if source is not None and internal:
        sub, _ = decode(bytes(source.subagent), SUBAGENT)
        above = meta.parent_thread_id
        if sub is not None:
            spawn, _ = decode(bytes(sub.thread_spawn), SPAWN)
            above = (spawn.parent_thread_id if spawn is not None else None) or sub.parent_thread_id or above
        parent = above or parent
    return Origin(session_id, meta.cwd or "", at, "" if parent == session_id else parent, internal)


def view(raw: bytes) -> View:
    """What one line says."""
    line, damaged = decode(raw, LINE)
    if line is None:
        return View(kind="damaged", in_context=False, damaged=True)
    at = _time(line.timestamp)
    payload = bytes(line.payload)
    match line.type:
        case "session_meta":
            found = _session(payload)
        case "response_item" | "request_item":
            found = _item(payload)
        case "event_msg":
            found = _event(payload)
        case "compacted":
            found = _compacted(payload)
        case "turn_context":
            turn, _ = decode(payload, TURN)
            found = _settings("turn_context", turn)
        case "":
            found = _session(raw) if _is_bare_meta(line) else _plain(line.record_type or "unknown")
        case _:
            found = _item(raw) if line.payload == NONE else _plain(line.type)
    return msgspec.structs.replace(found, at=at, damaged=damaged)


def _time(value: str | float | None) -> int | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _SECONDS:
        value = value * 1000
    return parse_time(value)


def _plain(kind: str, text: str = "") -> View:
    return View(kind=kind, typed=False, text=text, in_context=False)


def _session(payload: bytes) -> View:
    meta, _ = decode(payload, META)
    if meta is None:
        return _plain("session_meta")
    return View(
        kind="session_meta",
        typed=False,
        cwd=meta.cwd or "",
        provider=meta.model_provider or "",
        in_context=False,
    )


def _settings(kind: str, turn: Turn | None) -> View:
    if turn is None:
        return _plain(kind)
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
        return _plain("event_msg")
    kind = f"event/{event.type}"
    match event.type:
        case "thread_name_updated":
            return _plain("session_info", (event.thread_name or "").strip())
        case "thread_settings_applied":
            turn, _ = decode(bytes(event.thread_settings), TURN)
            return _settings(kind, turn)
        case "token_count":
            return _tokens(kind, event.info)
        case "turn_aborted":
            return _plain(kind, event.reason or "")
        case "error" | "stream_error" | "warning":
            return _plain(kind, event.message or "")
        case "thread_rolled_back":
            return _plain(kind, "" if event.num_turns is None else f"{event.num_turns} turns")
    return _plain(kind)


def _tokens(kind: str, raw: Raw) -> View:
    """The last answer's tokens. The event comes again with every news of limits; equal totals are one
    answer (`group`)."""
    info, _ = decode(bytes(raw), INFO)
    if info is None or info.last_token_usage is None:
        return _plain(kind)
    last, total = info.last_token_usage, info.total_token_usage
    usage = Usage(
        max(0, last.input_tokens - last.cached_input_tokens),
        last.output_tokens,
        last.cached_input_tokens,
        last.cache_write_input_tokens,
    )
    group = "" if total is None else f"tokens/{total.input_tokens}/{total.output_tokens}"
    return View(kind=kind, typed=False, usage=usage, in_context=False, group=group)


def _item(payload: bytes) -> View:
    item, _ = decode(payload, ITEM)
    if item is None:
        return _plain("response_item")
    call = item.call_id or item.id or ""
    match item.type:
        case "message" | "":
            return _message(item)
        case "agent_message":
            who = f"{item.author or ''} → {item.recipient or ''}".strip(" →")
            return View("message", "custom", blocks=_blocks(item.content), typed=False, text=who)
        case "reasoning":
            return _said(_reasoning(item))
        case "function_call" | "tool_search_call":
            name = item.name or ("tool_search" if item.type == "tool_search_call" else "")
            if item.namespace:
                name = f"{item.namespace.rstrip('_')}__{name}"
            arguments = item.arguments if item.arguments != NONE else item.parameters
            return _said((ToolCall(call, name, _unquoted(arguments)),))
        case "custom_tool_call":
            wrapped = b'{"input":' + bytes(item.input) + b"}"
            return _said((ToolCall(call, item.name or "", wrapped.decode("utf-8", "replace")),))
        case "local_shell_call":
            return _said((ToolCall(call, "shell", _unquoted(item.action)),))
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            return View("message", "tool", blocks=(_result(call, item.output),), typed=False)
        case "tool_search_output":
            tools = bytes(item.tools).decode("utf-8", "replace")
            result = ToolResult(call, "tool_search", (Text(tools),))
            return View("message", "tool", blocks=(result,), typed=False)
        case "web_search_call":
            search, _ = decode(bytes(item.action), SEARCH)
            return _plain("web_search", (search.query or search.url or "") if search is not None else "")
        case "image_generation_call" if item.result:
            prompt = (Text(item.revised_prompt),) if item.revised_prompt else ()
            return _said((*prompt, Image("image/png", item.result)))
    return _plain(f"response_item/{item.type}")


def _said(blocks: tuple[Block, ...]) -> View:
    return View("message", "assistant", blocks=blocks, typed=False)


def _message(item: Item) -> View:
    blocks = _blocks(item.content)
    match item.role:
        case "assistant":
            return _said(blocks)
        case "user":
            texts = [b.text.lstrip() for b in blocks if isinstance(b, Text) and b.text.strip()]
            if texts and all(t.startswith(_INSTRUCTIONS) for t in texts):
                return _instructions(blocks)
            typed = not (texts and all(t.startswith((*_INSTRUCTIONS, *_INJECTED)) for t in texts))
            role: Role = "user" if typed else "custom"
            return View("message", role, blocks=blocks, typed=typed)
        case "developer" | "system":
            return _instructions(blocks)
    return View("message", "custom", blocks=blocks, typed=False, text=item.role)


def _instructions(blocks: tuple[Block, ...]) -> View:
    """What Codex tells the model of its task and surroundings: nobody's words, sent anew by who goes on."""
    return View("instructions", "system", blocks=blocks, typed=False, in_context=False)


def _reasoning(item: Item) -> tuple[Block, ...]:
    texts = [*_texts(item.summary), *_texts(item.content)]
    text = "\n\n".join(texts)
    return (Thinking(text, redacted=not text and bool(item.encrypted_content)),)


def _compacted(payload: bytes) -> View:
    """The history starts over with this. One that only the provider can read is no text and starts
    nothing: what came before it stays the context."""
    found, _ = decode(payload, COMPACTED)
    if found is None:
        return _plain("compacted")
    message = (found.message or "").strip()
    said: list[str] = []
    opaque = False
    for raw in _items(found.replacement_history):
        item, _ = decode(raw, ITEM)
        if item is None:
            continue
        opaque |= item.type in _OPAQUE
        if item.type == "message" and item.role in {"user", "assistant"}:
            one = _message(item)
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
    kept = [Raw(item) for item in _items(found.replacement_history) if _item(item).kind == "message"]
    payload: dict[str, object] = {"message": found.message or ""}
    if found.replacement_history != NONE:
        payload["replacement_history"] = kept
    return msgspec.json.encode({"timestamp": line.timestamp, "type": "compacted", "payload": payload})


def _items(raw: Raw) -> Iterator[bytes]:
    content, _ = decode(bytes(raw), CONTENT)
    if isinstance(content, list):
        yield from (bytes(item) for item in content)


def _texts(raw: Raw) -> Iterator[str]:
    for item in _items(raw):
        part, _ = decode(item, PART)
        if part is not None and part.text and part.text.strip():
            yield part.text


def _blocks(raw: Raw) -> tuple[Text | Image, ...]:
    content, _ = decode(bytes(raw), CONTENT)
    if isinstance(content, str):
        return (Text(content),) if content else ()
    found: list[Text | Image] = []
    for item in content or ():
        part, _ = decode(bytes(item), PART)
        if part is None:
            continue
        if part.image_url:
            match = _DATA_URL.match(part.image_url)
            found.append(
                Image(match[1], part.image_url[match.end() :])
                if match
                else Text(f"[image: {part.image_url[:500]}]")
            )
        elif text := part.text or part.refusal:
            found.append(Text(text))
    return tuple(found)


def _unquoted(raw: Raw) -> str:
    """Arguments as JSON text: Codex writes them as a string that holds JSON, sometimes as an object."""
    if raw == NONE:
        return "{}"
    content, _ = decode(bytes(raw), CONTENT)
    return content if isinstance(content, str) else bytes(raw).decode("utf-8", "replace")


def _result(call: str, raw: Raw) -> ToolResult:
    content, _ = decode(bytes(raw), CONTENT)
    if isinstance(content, list):
        return ToolResult(call, "", _blocks(raw))
    text, failed = content or "", False
    wrapped = text.encode("utf-8", "replace") if text.startswith('{"') else bytes(raw)
    if content is None or text.startswith('{"'):
        out, damaged = decode(wrapped, OUTPUT)
        if out is not None and not damaged:
            inner = out.output if out.output != NONE else out.content
            exit_code, _ = decode(bytes(out.metadata), EXIT_CODE)
            failed = out.success is False or (exit_code is not None and bool(exit_code.exit_code))
            if inner != NONE:
                return ToolResult(call, "", _blocks(inner), failed)
        if not text and raw != NONE:
            part = _blocks(Raw(b"[" + bytes(raw) + b"]"))
            return ToolResult(call, "", part or (Text(bytes(raw).decode("utf-8", "replace")),), failed)
    if code := _EXIT.search(text[:_EXIT_HEAD]):
        failed = failed or int(code[1]) != 0
    return ToolResult(call, "", (Text(text),) if text else (), failed)
