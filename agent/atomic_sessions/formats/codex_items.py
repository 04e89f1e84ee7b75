"""What one response item of Codex says: a message, reasoning, a call, a result. Reads, never writes."""

import re
from collections.abc import Iterator

from msgspec import Raw

from atomic_sessions.entry import Block, Image, Role, Text, Thinking, ToolCall, ToolResult, View
from atomic_sessions.formats.codex_records import CONTENT, EXIT_CODE, ITEM, NONE, OUTPUT, PART, SEARCH, Item
from atomic_sessions.formats.lines import decode

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
_EXIT = re.compile(r"(?:\AExit code: |^Process exited with code )(-?\d+)$", re.MULTILINE)
_EXIT_HEAD = 400
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")


def plain_view(kind: str, text: str = "") -> View:
    """A line that nobody said and no model is sent."""
    return View(kind=kind, typed=False, text=text, in_context=False)


def item_view(payload: bytes) -> View:
    """What a response item says."""
    item, _ = decode(payload, ITEM)
    if item is None:
        return plain_view("response_item")
    call = item.call_id or item.id or ""
    match item.type:
        case "message" | "":
            return message_view(item)
        case "agent_message":
            who = f"{item.author or ''} → {item.recipient or ''}".strip(" →")
            return View("message", "custom", blocks=blocks_of(item.content), typed=False, text=who)
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
            return plain_view("web_search", (search.query or search.url or "") if search is not None else "")
        case "image_generation_call" if item.result:
            prompt = (Text(item.revised_prompt),) if item.revised_prompt else ()
            return _said((*prompt, Image("image/png", item.result)))
    return plain_view(f"response_item/{item.type}")


def _said(blocks: tuple[Block, ...]) -> View:
    return View("message", "assistant", blocks=blocks, typed=False)


def message_view(item: Item) -> View:
    """Who speaks in a message: what Codex puts in under a person's name is theirs no more."""
    blocks = blocks_of(item.content)
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


def raw_items(raw: Raw) -> Iterator[bytes]:
    """The items of a list, nothing of anything else."""
    content, _ = decode(bytes(raw), CONTENT)
    if isinstance(content, list):
        yield from (bytes(item) for item in content)


def _texts(raw: Raw) -> Iterator[str]:
    for item in raw_items(raw):
        part, _ = decode(item, PART)
        if part is not None and part.text and part.text.strip():
            yield part.text


def blocks_of(raw: Raw) -> tuple[Text | Image, ...]:
    """Texts and pictures of a content, which may be a text or a list of parts."""
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
        return ToolResult(call, "", blocks_of(raw))
    text, failed = content or "", False
    wrapped = text.encode("utf-8", "replace") if text.startswith('{"') else bytes(raw)
    if content is None or text.startswith('{"'):
        out, damaged = decode(wrapped, OUTPUT)
        if out is not None and not damaged:
            inner = out.output if out.output != NONE else out.content
            exit_code, _ = decode(bytes(out.metadata), EXIT_CODE)
            failed = out.success is False or (exit_code is not None and bool(exit_code.exit_code))
            if inner != NONE:
                return ToolResult(call, "", blocks_of(inner), failed)
        if not text and raw != NONE:
            part = blocks_of(Raw(b"[" + bytes(raw) + b"]"))
            return ToolResult(call, "", part or (Text(bytes(raw).decode("utf-8", "replace")),), failed)
    if code := _EXIT.search(text[:_EXIT_HEAD]):
        failed = failed or int(code[1]) != 0
    return ToolResult(call, "", (Text(text),) if text else (), failed)
