"""Sound lines of every session format, to be damaged."""

import json
from typing import Any

AT = "2026-11-01T10:00:00.000Z"
SID = "01a22c81-7192-70af-aa13-6f2a524f0b20"
USAGE = {
    "input_tokens": 1,
    "output_tokens": 2,
    "cache_read_input_tokens": 3,
    "cache_creation_input_tokens": 4,
}


def _lines(*values: dict[str, Any]) -> tuple[bytes, ...]:
    return tuple(json.dumps(value).encode() for value in values)


def _claude(kind: str, content: object, **more: object) -> dict[str, Any]:
    message = {
        "role": kind,
        "id": "m1",
        "model": "c",
        "content": content,
        "stop_reason": None,
        "usage": USAGE,
    }
    return {
        "type": kind, "uuid": "u1", "parentUuid": "u0", "sessionId": SID, "cwd": "/p", "timestamp": AT,
        "isSidechain": False, "version": "2.1.332", "message": message, **more,
    }  # fmt: skip


CLAUDE = _lines(
    _claude("user", "what is said"),
    _claude(
        "assistant", [{"type": "text", "text": "hi"}, {"type": "thinking", "thinking": "t", "signature": "s"}]
    ),
    _claude(
        "assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls", "n": [1]}}]
    ),
    _claude(
        "user",
        [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "text", "text": "out"}],
                "is_error": False,
            }
        ],
        toolUseResult={"stdout": "out"},
    ),
    _claude(
        "user", [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]
    ),
    _claude("assistant", [{"type": "redacted_thinking", "data": "x"}], isApiErrorMessage=True),
    _claude("user", "summary", isCompactSummary=True, isMeta=True),
    {"type": "summary", "summary": "a title", "leafUuid": "u1"},
    {"type": "custom-title", "customTitle": "named", "sessionId": SID},
    {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "x",
        "uuid": "u3",
        "logicalParentUuid": "u1",
    },
    {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
)


def _pi(kind: str, **more: object) -> dict[str, Any]:
    return {"type": kind, "id": "00000001", "parentId": None, "timestamp": AT, **more}


PI = _lines(
    {"type": "session", "version": 4, "id": SID, "createdAt": AT, "cwd": "/p", "project": "git:h/p"},
    {"type": "session", "version": 3, "id": SID, "timestamp": AT, "cwd": "/p", "parentSession": "x"},
    {"type": "session", "id": SID, "timestamp": AT, "cwd": "/p"},
    _pi("message", message={"role": "user", "content": "text", "timestamp": 1}),
    _pi(
        "message",
        message={
            "role": "assistant", "provider": "anthropic", "model": "m", "stopReason": "toolUse", "timestamp": 1.5,
            "content": [
                {"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b", "thinkingSignature": "c"},
                {"type": "toolCall", "id": "t", "name": "bash", "arguments": {"command": "ls"}},
            ],
            "usage": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "cost": {"total": 0.1}},
        },
    ),
    _pi(
        "message",
        message={
            "role": "toolResult", "toolCallId": "t", "toolName": "bash", "isError": False, "details": {"diff": "+a"},
            "content": [{"type": "text", "text": "out"}, {"type": "image", "mimeType": "image/png", "data": "AA"}],
        },
    ),
    _pi("message", message={"role": "bashExecution", "command": "ls", "output": "x", "exitCode": 0}),
    _pi("model_change", provider="p", modelId="m"),
    _pi("thinking_level_change", thinkingLevel="high"),
    _pi("compaction", summary="s", firstKeptEntryId="00000001", details={"strategy": "verbatim-lines"}),
    _pi("branch_summary", summary="s", fromId="00000001"),
    _pi("label", targetId="00000001", label="l"),
    _pi("session_info", name="n"),
    _pi("custom_message", customType="c", content=[{"type": "text", "text": "x"}], display=True),
    _pi("leaf", leafId="00000001"),
)  # fmt: skip


def _codex(kind: str, **payload: object) -> dict[str, Any]:
    return {"timestamp": AT, "type": kind, "payload": payload}


CODEX = _lines(
    _codex("session_meta", id=SID, cwd="/p", timestamp=AT, originator="codex_cli", source="cli"),
    _codex("turn_context", cwd="/p", model="gpt", effort="high"),
    _codex("response_item", type="message", role="user", content=[{"type": "input_text", "text": "ask"}]),
    _codex(
        "response_item", type="message", role="assistant", content=[{"type": "output_text", "text": "ok"}]
    ),
    _codex(
        "response_item",
        type="reasoning",
        summary=[{"type": "summary_text", "text": "s"}],
        encrypted_content="e",
    ),
    _codex("response_item", type="function_call", call_id="c", name="shell", arguments='{"command":["ls"]}'),
    _codex("response_item", type="function_call_output", call_id="c", output='{"output":"x","metadata":{}}'),
    _codex("response_item", type="local_shell_call", call_id="c", action={"type": "exec", "command": ["ls"]}),
    _codex("event_msg", type="user_message", message="ask"),
    _codex(
        "event_msg", type="token_count", info={"total_token_usage": {"input_tokens": 1, "output_tokens": 2}}
    ),
    _codex("event_msg", type="thread_rolled_back", num_turns=1),
    _codex(
        "compacted", message="m", replacement_history=[{"type": "message", "role": "user", "content": []}]
    ),
    {"id": SID, "timestamp": AT, "instructions": None},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "old"}]},
)

LINES: dict[str, tuple[bytes, ...]] = {"claude-code": CLAUDE, "pi": PI, "atomic": PI, "codex": CODEX}
