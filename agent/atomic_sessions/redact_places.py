"""Home folders and user names in every form a line can hold: plain, escaped, URL-encoded, as a folder's key.

The table beside `redact_rules` for what identifies a person rather than opens something. Each pattern
starts with a plain character, for a search that may skip ahead; a look back first costs 20 times as much.
"""

import re
from typing import NamedTuple

HOME = "home-path"
USER = "user-name"


class Place(NamedTuple):
    """`pattern` becomes `by`; tried only on texts that hold `hint` (lower case)."""

    kind: str
    hint: str
    pattern: re.Pattern[str]
    by: str


_SLASH = r"(?:/|\\{1,4}/|%2[Ff])"
_BACK = r"(?:\\{1,8}|/|%5[Cc])"
_USER = r"\w[\w.@-]{0,63}"
_SPACED = rf"(?:[\w.@-]{{1,64}}(?: [\w.@-]{{1,64}}){{1,3}}(?={_BACK})|{_USER})"
_MOUNTS = r"(?:(?:mnt|media|run/media|net|Volumes|export|var|host_mnt|private)(?:/[\w.-]{1,40})?/|[a-z]/)?"
_EDGE = r"(?![\w-]|\.\w)"

_DRIVE = rf"[A-Za-z](?<![A-Za-z0-9][A-Za-z])(?::|%3[Aa]){_BACK}[Uu]sers{_BACK}(?!Public\b){_SPACED}"
_DRIVE_KEY = r"[A-Za-z](?<![^/\\\s\"'F][A-Za-z])--Users-[A-Za-z0-9]{1,40}(?=-)"


def _shapes(folder: str) -> tuple[str, ...]:
    return (
        rf"/(?<![\w.-]/)(?<![\w.-]\\/){_MOUNTS}{folder}{_SLASH}(?!Shared\b){_USER}",
        rf"\\(?<![\w.-]\\)\\{{0,3}}/{folder}\\{{1,4}}/(?!Shared\b){_USER}",
        rf"%2[Ff](?<![A-Za-z0-9]%2[Ff]){folder}%2[Ff](?!Shared\b){_USER}",
        # The key a folder's path becomes: one component of another path, or a whole text.
        rf"-(?<![^/\\\s\"'F]-)-?{folder}-[A-Za-z0-9]{{1,40}}(?=-)",
    )


_GENERAL = tuple(
    Place(HOME, hint, re.compile(shape), "~")
    for hint, shapes in (("home", _shapes("home")), ("users", (_DRIVE, _DRIVE_KEY, *_shapes("Users"))))
    for shape in shapes
)


def home_rules(homes: tuple[str, ...]) -> tuple[Place, ...]:
    """Homes that are named, whatever they are called, then every folder that can only be a home."""
    named: list[Place] = []
    for home in sorted({h.rstrip("/\\") for h in homes}, key=lambda h: (-len(h), h)):
        parts = [p for p in re.split(r"[/\\]+", home) if p]
        if not parts:
            continue
        first, rest = re.escape(parts[0]), "".join(rf"(?:{_SLASH}|{_BACK}){re.escape(p)}" for p in parts[1:])
        start = rf"{first[0]}(?<![\w.-]{first[0]}){first[1:]}" if home[1:2] == ":" else _rooted(first)
        hint = parts[-1].lower()
        named.append(Place(HOME, hint, re.compile(f"{start}{rest}{_EDGE}"), "~"))
        key = re.escape(re.sub(r"[^A-Za-z0-9]", "-", home))
        # A key of one word ("-root") is also how options of commands look, so it counts only inside a path.
        before = r"-(?<![A-Za-z0-9]-)" if len(parts) > 1 else r"-(?<=[/\\]-)"
        if home[:1] == "/":
            named.append(Place(HOME, hint, re.compile(f"{before}-?{key[2:]}(?![A-Za-z0-9])"), "~"))
    return (*named, *_GENERAL)


def _rooted(first: str) -> str:
    return rf"(?:/(?<![\w.-]/)(?<![\w.-]\\/)|\\(?<![\w.-]\\)\\{{0,3}}/|%2[Ff](?<![A-Za-z0-9]%2[Ff])){first}"


def user_rules(users: tuple[str, ...]) -> tuple[Place, ...]:
    """User names where they stand for the person: before an @, and as the owner of a folder."""
    rules: list[Place] = []
    for user in sorted({u for u in users if len(u) > 1}, key=lambda u: (-len(u), u)):
        name = re.escape(user)
        owner = rf"(?:(?<=/media/{name})|(?<=/mail/{name}))(?![\w-])"
        pattern = re.compile(rf"{name}(?:(?<![\w.@%+-]{name})(?=@[\w-])|{owner})")
        rules.append(Place(USER, user.lower(), pattern, f"[redacted:{USER}]"))
    return tuple(rules)
