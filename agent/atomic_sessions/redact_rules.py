"""The table of secrets: what they look like and what they are called. No reading of entries (that is `redact`).

To add one, add a row and, in tests/domain/test_redact.py, an example put together at run time. A row
is tried only on texts that hold one of its hints (lower case), so hints decide the speed.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple


class Rule(NamedTuple):
    """`pattern` finds it; the group `s`, when there is one, is the secret itself and the rest stays.
    `check` has the last word on what was found. With an `anchor`, which is quick to find, `pattern` is tried only
    where it stands. `prefixes` are set for keys with a shape of their own."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None
    anchor: re.Pattern[str] | None = None
    prefixes: tuple[str, ...] = ()


def _has_digit(value: str) -> bool:
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def entropy(value: str) -> float:
    """Bits per character."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values()) if size else 0.0


_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z_]*(?:(?:\.|::|->)[A-Za-z_]+)*\??\.?")
_PLACEHOLDER = re.compile(
    r"[xX*.•_-]+|\$.*|%.*%|\{.*|<.*|(?:your|my|the|some|example|dummy|fake|test|placeholder|changeme|redacted|undefined)"
    r"(?:[-_ ].*|)|(?:process|os|env|config|settings|self|this)\..*",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"(?:https?|file|arn|urn):.*|(?:~|\.{0,2})[/\\][\w./\\-]*|[A-Za-z]:[\\/].*", re.IGNORECASE
)


def is_secret_value(value: str) -> bool:
    """Whether what stands behind `token=` or `secret:` is a value and no name, path, type or number."""
    if len(value) < 8 or value.isdigit() or _PLACEHOLDER.fullmatch(value) or _ELSEWHERE.fullmatch(value):
        return False
    if _IDENTIFIER.fullmatch(value):
        # Letters only: a name in code, unless it mixes cases without being camelCase.
        return len(value) >= 20 and sum(c.isupper() for c in value) > len(value) // 4 and entropy(value) > 3.6
    return entropy(value) >= 2.8 and any(c.isalpha() for c in value)


def is_password_value(value: str) -> bool:
    """As above for what is named a password: shorter and simpler ones count, code still does not."""
    if len(value) < 6 or _PLACEHOLDER.fullmatch(value) or _ELSEWHERE.fullmatch(value):
        return False
    return not _IDENTIFIER.fullmatch(value) and len(set(value)) > 2


_SEPARATOR = r"(?:[\"'`\\]{0,4}\]?[ \t]{0,8}(?:=>|:=|[:=])[ \t]{0,8}(?:\\?u?[\"'`\\]){0,4})"
_VALUE = r"(?P<s>[^\s\"'`\\,;&<>(){}\[\]|]{6,400})"
_NEWLINE = r"(?:\s|\\{1,4}[nr])"
_KEY_WORDS = ("api", "access", "private", "auth", "signing", "encryption", "account", "client")
_KEY = "|".join(f"(?<={word}key)|(?<={word}[_.-]key)" for word in _KEY_WORDS)


def _words(*words: str) -> re.Pattern[str]:
    """Words in the three ways they are written. Plain letters, which is what makes the search for them fast:
    3 MB take 20 ms, an ignoring of case 240 ms."""
    return re.compile("|".join(form for word in words for form in (word, word.title(), word.upper())))


def _token(
    kind: str, prefixes: tuple[str, ...], body: str, check: Callable[[str], bool] | None = None
) -> Rule:
    """A key that begins with one of these prefixes, not in the middle of a word."""
    starts = "|".join(rf"{re.escape(p)}(?<![A-Za-z0-9_]{re.escape(p)})" for p in prefixes)
    hints = tuple(p.lower() for p in prefixes)
    return Rule(kind, hints, re.compile(f"(?:{starts}){body}(?![A-Za-z0-9])"), check, prefixes=prefixes)


RULES: tuple[Rule, ...] = (
    Rule(
        "private-key",
        ("private key",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:(?!-----BEGIN)[\s\S]){0,12000}?"
            rf"-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----|(?:{_NEWLINE}{{1,8}}[A-Za-z0-9+/=]{{16,}})+"
            rf"(?:{_NEWLINE}{{1,8}}[A-Za-z0-9+/]{{1,15}}={{1,2}})?)"
        ),
    ),
    _token("aws-key", ("AKIA", "ASIA", "ABIA", "ACCA"), "[A-Z0-9]{16}"),
    Rule(
        "aws-secret",
        ("secret",),
        re.compile(
            r"(?i)secret(?:[_-]?access[_-]?key|(?<=aws[_-]secret)\w{0,20}|(?<=awssecret)\w{0,20})"
            rf"{_SEPARATOR}(?P<s>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])"
        ),
        anchor=_words("secret"),
    ),
    _token("github-token", ("gho_", "ghp_", "ghs_", "ghu_", "ghr_"), "[A-Za-z0-9]{30,255}"),
    _token("github-token", ("github_pat_",), "[A-Za-z0-9_]{22,255}"),
    _token(
        "gitlab-token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glft-", "glagent-", "gloas-"),
        "[A-Za-z0-9_.-]{20,300}",
    ),
    _token("anthropic-key", ("sk-ant-",), "[A-Za-z0-9_-]{20,300}"),
    _token("openai-key", ("sk-",), "(?!ant-)[A-Za-z0-9_-]{20,300}", _has_digit),
    _token("google-key", ("AIza",), "[A-Za-z0-9_-]{35}"),
    _token("google-key", ("GOCSPX-", "ya29."), "[A-Za-z0-9_-]{20,500}"),
    _token(
        "slack-token",
        ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        "[A-Za-z0-9-]{10,300}",
        _has_digit,
    ),
    Rule(
        "slack-webhook",
        ("hooks.slack.com",),
        re.compile(r"hooks\.slack\.com/(?:services|workflows)/(?P<s>[A-Za-z0-9/_+-]{20,200})"),
    ),
    _token(
        "stripe-key",
        ("sk_live_", "rk_live_", "pk_live_", "sk_test_", "rk_test_", "whsec_"),
        "[A-Za-z0-9]{16,300}",
    ),
    _token("npm-token", ("npm_",), "[A-Za-z0-9]{36}"),
    _token("pypi-token", ("pypi-",), "[A-Za-z0-9_-]{50,300}"),
    _token("huggingface-token", ("hf_",), "[A-Za-z0-9]{30,100}"),
    _token("groq-key", ("gsk_",), "[A-Za-z0-9]{40,100}"),
    _token("xai-key", ("xai-",), "[A-Za-z0-9]{40,200}"),
    _token("docker-token", ("dckr_pat_", "dckr_oat_"), "[A-Za-z0-9_-]{20,100}"),
    _token("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), "[a-f0-9]{64}"),
    _token("sendgrid-key", ("SG.",), r"[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{30,60}"),
    _token("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), "[a-fA-F0-9]{32}"),
    _token("vault-token", ("hvs.", "hvb.", "hvr."), "[A-Za-z0-9_-]{24,300}"),
    _token("tailscale-key", ("tskey-",), "[A-Za-z0-9-]{20,100}"),
    _token("linear-key", ("lin_api_", "lin_oauth_"), "[A-Za-z0-9]{32,100}"),
    _token("notion-token", ("ntn_",), "[A-Za-z0-9]{40,100}"),
    _token("age-key", ("AGE-SECRET-KEY-1",), "[A-Z0-9]{50,70}"),
    Rule(
        "telegram-token", (":aa",), re.compile(r":AA(?<=\d{8}:AA)(?P<s>[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])")
    ),
    Rule(
        "azure-secret",
        ("q~",),
        re.compile(r"Q~(?<=[A-Za-z0-9_~.]{3}\dQ~)(?P<s>[A-Za-z0-9_~.-]{31,34})(?![A-Za-z0-9_~.-])"),
    ),
    Rule(
        "azure-key",
        ("key=", "sig="),
        re.compile(r"(?:AccountKey|SharedAccessKey|[?&]sig)=(?P<s>[A-Za-z0-9+/%=_-]{30,200})"),
    ),
    Rule("share-link", ("#v1.",), re.compile(r"#v1\.(?P<s>[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])")),
    _token("jwt", ("eyJ",), r"[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{4,8000}){2,4}"),
    Rule(
        "url-password",
        ("://",),
        re.compile(
            r"://(?<=[A-Za-z0-9]://)(?<!file://)[^\s/:@\"'`<>\\?#\[\]]{0,100}:(?P<s>[^\s/\"'`<>\\?#]{1,200})@(?=[^\s@])"
        ),
        lambda value: _PLACEHOLDER.fullmatch(value) is None,
    ),
    Rule(
        "url-token",
        ("://",),
        re.compile(r"://(?<=http://|ttps://)(?P<s>[A-Za-z0-9_-]{20,200})@(?=[A-Za-z0-9])"),
        _has_digit,
    ),
    Rule(
        "authorization",
        ("authorization", "bearer"),
        re.compile(
            rf"(?i)(?:authorization{_SEPARATOR}(?:bearer|basic|token|digest|apikey)|bearer)[ \t]{{1,4}}"
            r"(?P<s>[A-Za-z0-9._~+/=:-]{12,4000})"
        ),
        _has_digit,
        _words("authorization", "bearer"),
    ),
    Rule(
        "netrc",
        ("machine",),
        re.compile(
            rf"machine{_NEWLINE}{{1,4}}[^\s\\]{{1,200}}{_NEWLINE}{{1,4}}login{_NEWLINE}{{1,4}}[^\s\\]{{1,200}}{_NEWLINE}{{1,4}}"
            rf"password{_NEWLINE}{{1,4}}(?P<s>[^\s\"'\\]{{1,200}})"
        ),
    ),
    Rule(
        "basic-auth",
        ("curl", "http"),
        re.compile(
            r"(?:curl|https?)\b[^\n|;]{0,200}?[ \t](?:-u|--user|-a|--auth)[ =]{1,2}[\"'\\]{0,2}[^\s:\"'\\]{1,100}:"
            r"(?P<s>[^\s\"'\\]{3,200})"
        ),
        lambda value: _PLACEHOLDER.fullmatch(value) is None,
        re.compile("curl|http"),
    ),
    Rule(
        "password",
        ("passw", "passphrase", "pwd"),
        re.compile(rf"(?i)(?:passw(?:or)?d|passphrase|pwd)(?:[_-][A-Za-z0-9]{{1,16}})?{_SEPARATOR}{_VALUE}"),
        is_password_value,
        _words("passw", "passphrase", "pwd"),
    ),
    Rule(
        "secret",
        ("secret", "token", "key", "credential"),
        re.compile(
            rf"(?i)(?:secret|token|credentials?|key(?:{_KEY}))(?:[_-][A-Za-z0-9]{{1,16}}){{0,3}}{_SEPARATOR}{_VALUE}"
        ),
        is_secret_value,
        _words("secret", "token", "credential", "key"),
    ),
    Rule(
        "secret",
        ("_key", "_pass", "_auth"),
        re.compile(rf"_(?<=[A-Z0-9]_)(?:KEY|PASS|AUTH){_SEPARATOR}{_VALUE}"),
        is_secret_value,
    ),
)

PASSWORD_NAME = re.compile(r"(?i)(?:^|[a-z0-9_.-])(?:passw(?:or)?d|passphrase|pwd)$")
SECRET_NAME = re.compile(
    rf"(?i)(?:secret|token|credentials?|key(?:{_KEY}))(?:[_-]?id|[_-]?value|[_-]?base64)?$"
)
"""Names of JSON members whose whole value is the secret."""


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a member of this name holds a secret when its value looks like one."""
    return len(name) <= 80 and bool(SECRET_NAME.search(name) or PASSWORD_NAME.search(name))


def _is_joined(prefix: str) -> bool:
    return prefix[-1] in "_-."


def _any_of(prefixes: Iterable[str]) -> str:
    return "|".join(re.escape(p) for p in prefixes)


_JOINED = re.compile(
    "[_.-](?=[A-Za-z0-9_-]{16})(?:"
    + "|".join(f"(?<={re.escape(p)})" for r in RULES for p in r.prefixes if _is_joined(p))
    + ")"
)
_UPPER = re.compile(f"A(?:{_any_of(p[1:] for r in RULES for p in r.prefixes if p[0] == 'A')})")
"""Two searches for all prefixes that end in a joint or start with a capital A: looking for 40 prefixes one by
one takes 2 ms each for 3 MB."""


_SHARED = ("secret", "token", "key", "pass", "auth", "http", "://")


def _short(hint: str) -> str:
    return next((shared for shared in _SHARED if shared in hint), hint)


def _line_hints(rule: Rule) -> list[str]:
    pairs = zip(rule.hints, rule.prefixes or rule.hints, strict=True)
    return [
        _short(hint)
        for hint, prefix in pairs
        if not rule.prefixes or not (_is_joined(prefix) or prefix[0] == "A")
    ]


HINTS = tuple(dict.fromkeys(hint for rule in RULES for hint in _line_hints(rule)))
"""What a text is searched for before anything else; without any of these and without a prefix it is clean."""

_BY_HINT = {hint: {i for i, rule in enumerate(RULES) if hint in _line_hints(rule)} for hint in HINTS}
_BY_PREFIX = {i for i, rule in enumerate(RULES) if any(_is_joined(p) or p[0] == "A" for p in rule.prefixes)}


def has_prefixed(text: str) -> bool:
    """Whether a text may hold one of the keys that are known by their prefix."""
    return _JOINED.search(text) is not None or _UPPER.search(text) is not None


def rules_for(text: str, lower: str, hints: Iterable[str] = HINTS) -> list[Rule]:
    """The rules worth trying on a text, in the order of the table; `hints` are those it may hold."""
    numbers: set[int] = set(_BY_PREFIX) if has_prefixed(text) else set()
    for hint in hints:
        if hint in lower:
            numbers |= _BY_HINT.get(hint, set())
    return [RULES[number] for number in sorted(numbers)]
