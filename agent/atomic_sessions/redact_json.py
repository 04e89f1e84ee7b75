"""Strings inside JSON text: where they are and what they say, without reading the rest. Changes nothing.

So that a line can be edited in place, with every other byte, the order of members and the form of
numbers as they were.
"""

import json
import re

import msgspec

LITERAL = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TOKEN = re.compile(rf"{LITERAL.pattern}|[{{}}\[\],:]", re.DOTALL)
FREE = frozenset({"input", "arguments", "args", "details", "data", "toolUseResult", "env"})
"""Members that hold what a tool was given or gave: nothing in there is a session's own structure."""


def place_of(text: str, end: int) -> tuple[str, bool]:
    """Where in a JSON text the string at `end` stands, like `message.content[0].text`, and whether that is
    inside what a tool was given or gave. Names that could themselves hold a secret are a star."""
    stack: list[list[object]] = []
    for token in _TOKEN.finditer(text, 0, end):
        mark = token[0]
        if mark[0] == '"':
            if stack and stack[-1][0] == "{" and not stack[-1][2]:
                stack[-1][1] = mark[1:-1]
        elif mark in "{[":
            stack.append([mark, "" if mark == "{" else 0, False])
        elif mark in "}]":
            stack.pop()
        elif mark == ":":
            stack[-1][2] = True
        elif stack:
            stack[-1][2] = False
            if isinstance(stack[-1][1], int):
                stack[-1][1] += 1
    parts = [
        f"[{label}]"
        if isinstance(label, int)
        else f".{label}"
        if named and _NAME.fullmatch(str(label))
        else ".*"
        for _, label, named in stack
    ]
    return "".join(parts).removeprefix("."), any(label in FREE for _, label, _ in stack)


_NAME = re.compile(r"[A-Za-z_][A-Za-z_-]{0,40}")


def decoded(literal: str) -> str | None:
    if "\\" not in literal:
        return literal[1:-1]
    try:
        value = json.loads(literal, strict=False)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def is_json(text: str) -> bool:
    """Whether the text is an object or array in JSON, as the standard library reads it."""
    if text.lstrip()[:1] not in {"{", "["}:
        return False
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return False
    return True
