"""Entries to entries without secrets and home paths: one pass, on the person's machine, before anything is published.

Touches only what it replaces: other bytes of a line stay, the line stays JSON, ids stay. What is found is
reported by kind and place and never by value. Never runs on the service, which may not import it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
from msgspec import Struct

from atomic_sessions.entry import Entry, View
from atomic_sessions.redact_json import LITERAL, decoded, is_json, place_of
from atomic_sessions.redact_places import home_rules, user_rules
from atomic_sessions.redact_rules import (
    HINTS,
    PASSWORD_NAME,
    Rule,
    has_prefixed,
    is_password_value,
    is_secret_name,
    is_secret_value,
    rules_for,
)

_MAX_NESTING = 4
_MAX_ROUNDS = 6
_REMEMBERED = 65_536
_PREFIXED = "\x00"

_BLOB = re.compile(r"(?:data:[\w/+.-]{1,60};base64,)?[A-Za-z0-9+/]{200,}={0,2}")
# fmt: off
_STRUCTURE = frozenset({
    "agentId", "call_id", "encrypted_content", "firstKeptEntryId", "fromId", "id", "leafId",
    "leafUuid", "logicalParentUuid", "messageId", "parentId", "parentToolUseID", "parentUuid",
    "promptId", "requestId", "responseId", "role", "sessionId", "session_id", "signature",
    "sourceToolAssistantUUID", "sourceToolUseID", "summarizedThroughId", "targetId", "textSignature",
    "thinkingSignature", "thoughtSignature", "timestamp", "toolCallId", "toolUseID", "toolUseId",
    "tool_use_id", "type", "uuid", "version",
})
# fmt: on
"""Members that hold a session together. Their values are left alone, except inside what a tool was given or gave."""


class Finding(Struct, frozen=True):
    """So many of one kind at one place: the entry, and the field inside it (`message.content[0].text`)."""

    kind: str
    entry: str
    field: str
    count: int


class Report(Struct, frozen=True):
    """What was taken out. Holds no value, no part of one and no length."""

    findings: tuple[Finding, ...]

    def summary_lines(self) -> list[str]:
        """One line a kind, most frequent first; a line that says so when nothing was found."""
        if not self.findings:
            return ["No secrets and no home paths were found."]
        counts: Counter[str] = Counter()
        places: dict[str, set[str]] = {}
        for finding in self.findings:
            counts[finding.kind] += finding.count
            places.setdefault(finding.kind, set()).add(finding.entry)
        lines = []
        for kind, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
            entries = len(places[kind])
            lines.append(f"{kind}: {count} in {entries} {'entry' if entries == 1 else 'entries'}")
        return lines


def redact_entries(
    entries: Iterable[Entry], *, home: tuple[str, ...] = (), users: tuple[str, ...] = ()
) -> tuple[list[Entry], Report]:
    """The same entries with every known secret as `[redacted:KIND]` and every home as `~`.

    `home` are home folders of the machines the session was on, `users` their user names; folders under
    /home, /Users and C:\\Users are found without being named.
    """
    redactor = Redactor(home=home, users=users)
    return [redactor.entry(entry) for entry in entries], redactor.report()


class Redactor:
    """The pass over one session: patterns of its homes, and what has been found so far."""

    def __init__(self, *, home: tuple[str, ...] = (), users: tuple[str, ...] = ()) -> None:
        self._places = home_rules(home) + user_rules(users)
        self._hints = tuple(dict.fromkeys([*HINTS, *(p.hint for p in self._places), "\\u00", "\\/"]))
        self._found: Counter[tuple[str, str, str]] = Counter()
        self._clean: set[str] = set()
        self._short: dict[tuple[str, str | None], tuple[str, tuple[str, ...]]] = {}

    def report(self) -> Report:
        """What was found until now, in the order of the entries."""
        return Report(tuple(Finding(k, e, f, n) for (k, e, f), n in self._found.items()))

    def entry(self, entry: Entry) -> Entry:
        """One entry; the same object when there was nothing in it."""
        if entry.file and not entry.file.endswith(".jsonl"):
            raw = self._bytes(entry.raw, entry.file, plain=not entry.file.endswith(".json"))
        elif entry.file:
            raw = b"\n".join(self._bytes(line, entry.file) for line in entry.raw.split(b"\n"))
        else:
            raw = self._bytes(entry.raw, entry.id)
        return entry if raw == entry.raw else msgspec.structs.replace(entry, raw=raw)

    def line(self, raw: bytes, place: str = "header") -> bytes:
        """One raw JSON line that is no entry, such as a session's header."""
        return self._bytes(raw, place)

    def text(self, text: str, place: str = "name") -> str:
        """Plain text: a title, a label, a note."""
        new, kinds = self._cleaned(text)
        self._count(kinds, place, "")
        return new

    def _bytes(self, raw: bytes, place: str, *, plain: bool = False) -> bytes:
        text = raw.decode("utf-8", "surrogateescape")
        hits = self._hits(text)
        if not hits:
            return raw
        if plain or not is_json(text):
            new = self.text(text, place)
        else:
            new, findings = self._json(text, hits, 0)
            for field, kinds in findings:
                self._count(kinds, place, field)
        return raw if new == text else new.encode("utf-8", "surrogateescape")

    def _count(self, kinds: Iterable[str], place: str, field: str) -> None:
        for kind in kinds:
            self._found[kind, place, field] += 1

    def _json(self, text: str, hits: list[str], depth: int) -> tuple[str, list[tuple[str, tuple[str, ...]]]]:
        """JSON text with the strings replaced that hold something, and what was found in which field.

        Everything between those strings stays as it is.
        """
        literals = LITERAL.findall(text)
        clean = self._clean
        suspects = [i for i, literal in enumerate(literals) if literal not in clean]
        suspects = [i for i in suspects if not self._is_clean(literals[i], hits)]
        if not suspects:
            return text, []
        after = {i + 1 for i in suspects if is_secret_name(literals[i][1:-1]) and i + 1 < len(literals)}
        wanted = after.union(suspects)
        last = max(wanted)
        out: list[str] = []
        findings: list[tuple[str, tuple[str, ...]]] = []
        done = before = 0
        for index, match in enumerate(islice(LITERAL.finditer(text), last + 1)):
            start, end = match.span()
            if index in wanted:
                name = literals[index - 1][1:-1] if index and text[before:start].strip() == ":" else None
                named = name if index in after and name is not None else None
                new, kinds, inner = self._literal(match[0], named, hits, depth)
                if kinds or inner:
                    path, free = place_of(text, start)
                    if depth or free or name not in _STRUCTURE:
                        out.append(text[done:start])
                        out.append(new)
                        done = end
                        if kinds:
                            findings.append((path, kinds))
                        findings.extend((f"{path}>{below}", found) for below, found in inner)
            before = end
        out.append(text[done:])
        return "".join(out), findings

    def _is_clean(self, literal: str, hits: list[str]) -> bool:
        """Whether none of the line's hints is in this string. Short strings repeat, so they are remembered."""
        lower = literal.lower()
        for hint in hits:
            if hint in lower:
                return False
        if hits[0] == _PREFIXED and has_prefixed(literal):
            return False
        if len(literal) < 24 and len(self._clean) < _REMEMBERED and not self._hits(literal):
            self._clean.add(literal)
        return True

    def _hits(self, text: str) -> list[str]:
        """The hints a text holds; empty for almost every text."""
        lower = text.lower()
        hits = [_PREFIXED] if has_prefixed(text) else []
        hits.extend(hint for hint in self._hints if hint in lower)
        return hits

    def _literal(
        self, literal: str, named: str | None, hits: list[str], depth: int
    ) -> tuple[str, tuple[str, ...], list[tuple[str, tuple[str, ...]]]]:
        """A string in JSON: the new one, kinds found in it, and findings inside it when it is JSON itself."""
        known = self._short.get((literal, named)) if len(literal) < 300 else None
        if known is not None:
            return known[0], known[1], []
        value = decoded(literal)
        if value is None or _BLOB.fullmatch(value):
            return literal, (), []
        inner: list[tuple[str, tuple[str, ...]]] = []
        new = value
        if named is not None and (kind := _named_kind(named, value)):
            new = f"[redacted:{kind}]"
            kinds: tuple[str, ...] = (kind,)
        else:
            if depth < _MAX_NESTING and is_json(value):
                new, inner = self._json(value, self._hits(value) or [_PREFIXED], depth + 1)
            new, kinds = self._cleaned(new, HINTS if "\\" in literal else hits)
            if named is not None and new != value and (kind := _named_kind(named, new)):
                new, kinds = f"[redacted:{kind}]", (*kinds, kind)
        if new != value:
            literal_new = json.dumps(new, ensure_ascii=any("\ud800" <= c <= "\udfff" for c in new))
        else:
            literal_new, kinds, inner = literal, (), []
        if len(literal) < 300 and not inner and len(self._short) < _REMEMBERED:
            self._short[literal, named] = (literal_new, kinds)
            if not kinds and named is None and not is_secret_name(literal[1:-1]):
                self._clean.add(literal)
        return literal_new, kinds, inner

    def _cleaned(self, text: str, hints: Iterable[str] = HINTS) -> tuple[str, tuple[str, ...]]:
        """Plain text without secrets, and their kinds; `hints` are those it may hold. Rules run until nothing
        changes, so that a second pass finds nothing either."""
        kinds: list[str] = []
        for _ in range(_MAX_ROUNDS):
            before = text
            lower = text.lower()
            for rule in rules_for(text, lower, hints):
                text = _apply(rule, text, kinds)
            for place in self._places:
                if place.hint in lower:
                    text, count = place.pattern.subn(place.by, text)
                    kinds.extend([place.kind] * count)
            if text == before:
                break
        return text, tuple(kinds)


def _apply(rule: Rule, text: str, kinds: list[str]) -> str:
    out: list[str] = []
    done = 0
    group = "s" if "s" in rule.pattern.groupindex else 0
    for match in _matches(rule, text):
        value = match.group(group)
        if (
            match.start() < done
            or "[redacted:" in value
            or (rule.check is not None and not rule.check(value))
        ):
            continue
        out.append(text[done : match.start(group)])
        out.append(f"[redacted:{rule.kind}]")
        done = match.end(group)
        kinds.append(rule.kind)
    if not out:
        return text
    out.append(text[done:])
    return "".join(out)


def _matches(rule: Rule, text: str) -> Iterator[re.Match[str]]:
    if rule.anchor is None:
        yield from rule.pattern.finditer(text)
        return
    for place in rule.anchor.finditer(text):
        if match := rule.pattern.match(text, place.start()):
            yield match


def _named_kind(name: str, value: str) -> str:
    """The kind of a whole value whose member's name promises a secret; empty when it is none, or when a rule
    with a shape of its own names it better."""
    if len(value) > 4000 or " " in value or "[redacted:" in value:
        return ""
    password = PASSWORD_NAME.search(name) is not None
    if not (is_password_value(value) if password else is_secret_value(value)):
        return ""
    shaped = any(
        r.kind not in {"secret", "password"} and r.pattern.search(value)
        for r in rules_for(value, value.lower())
    )
    return "" if shaped else "password" if password else "secret"


# fmt: off
_PUBLIC_KINDS = frozenset({
    "active_tools_change", "branch_summary", "compacted", "compaction", "context_compaction",
    "context_window_change", "custom_message", "label", "leaf", "message", "model_change", "session",
    "session_info", "session_summary", "system", "system/away_summary", "system/compact_boundary",
    "system/local_command", "system/microcompact_boundary", "thinking_level_change", "title",
    "web_search",
})
# fmt: on


def publishable(view: View) -> bool:
    """Whether a line is part of what a person publishes: what was said, done, summed up, named and labelled.

    Requests as sent to a model, system prompts, environment and prompt snapshots, hooks, progress, queues
    and every kind not known here are not: they are bulky, and the likeliest to hold what nobody looked at.
    """
    return view.kind in _PUBLIC_KINDS and view.role != "system"


# fmt: off
_KEPT = (
    "type", "subtype", "id", "uuid", "parentId", "parentUuid", "logicalParentUuid", "timestamp",
    "sessionId", "session_id", "isSidechain", "agentId", "userType", "version",
)
# fmt: on


def withheld(entry: Entry) -> Entry | None:
    """What stays of an entry that is not publishable: its place in the tree, or nothing of a loose line."""
    if entry.loose or entry.file:
        return None
    try:
        line = json.loads(entry.raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    stub = {key: line[key] for key in _KEPT if key in line and not isinstance(line[key], dict | list)}
    message, attachment = line.get("message"), line.get("attachment")
    if isinstance(message, dict):
        stub["message"] = {"role": message.get("role"), "content": []}
    if isinstance(attachment, dict):
        stub["attachment"] = {"type": attachment.get("type")}
    raw = json.dumps(stub, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return msgspec.structs.replace(entry, raw=raw)
