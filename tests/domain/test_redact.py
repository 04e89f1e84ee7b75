"""Redaction: what is found, what is left alone, and what a report may say. Examples are put together at run
time, so that no scanner of this repository takes them for real keys."""

import json
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atomic_sessions.entry import Entry, Text, View
from atomic_sessions.redact import Finding, Redactor, Report, publishable, redact_entries, withheld
from atomic_sessions.redact_rules import RULES

HOME = ("/home/ana",)
MIXED = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9" * 8
HEX = "0123456789abcdef" * 8


def pem(newline: str = "\n") -> str:
    body = newline.join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA" + MIXED[:20]] * 3)
    return newline.join(["-----BEGIN " + "PRIVATE KEY-----", body, "-----END " + "PRIVATE KEY-----"])


# One example for every kind of the table: kind, text before, the secret, text after.
EXAMPLES: list[tuple[str, str, str, str]] = [
    ("private-key", "key: ", pem(), " done"),
    ("aws-key", "id=", "AK" + "IA" + "IOSFODNN7EXAMPLE", ";"),
    ("aws-key", "id=", "AS" + "IA" + "IOSFODNN7EXAMPLE", "\n"),
    ("aws-secret", "aws_secret_access_key = ", MIXED[:40], "\n"),
    ("github-token", "use ", "gh" + "p_" + MIXED[:36], " here"),
    ("github-token", "use ", "gh" + "o_" + MIXED[:36], " here"),
    ("github-token", "use ", "gh" + "s_" + MIXED[:36], " here"),
    ("github-token", "use ", "github" + "_pat_" + MIXED[:60], " here"),
    ("gitlab-token", "use ", "gl" + "pat-" + MIXED[:20], " here"),
    ("anthropic-key", "use ", "sk-" + "ant-api03-" + MIXED[:60], " here"),
    ("openai-key", "use ", "sk-" + "proj-" + MIXED[:60], " here"),
    ("openai-key", "use ", "sk-" + MIXED[:48], " here"),
    ("google-key", "use ", "AI" + "za" + MIXED[:35], " here"),
    ("google-key", "use ", "GOC" + "SPX-" + MIXED[:28], " here"),
    ("slack-token", "use ", "xo" + "xb-" + "123456789012-" + MIXED[:24], " here"),
    ("slack-webhook", "https://hooks.slack.com/services/", "T0" + "1234567/B01234567/" + MIXED[:24], " here"),
    ("stripe-key", "use ", "sk_" + "live_" + MIXED[:24], " here"),
    ("stripe-key", "use ", "rk_" + "live_" + MIXED[:24], " here"),
    ("npm-token", "use ", "np" + "m_" + MIXED[:36], " here"),
    ("pypi-token", "use ", "py" + "pi-AgEIcHlwaS5vcmc" + MIXED[:60], " here"),
    ("huggingface-token", "use ", "h" + "f_" + MIXED[:34], " here"),
    ("groq-key", "use ", "gs" + "k_" + MIXED[:52], " here"),
    ("xai-key", "use ", "xa" + "i-" + MIXED[:60], " here"),
    ("docker-token", "use ", "dckr" + "_pat_" + MIXED[:27], " here"),
    ("digitalocean-token", "use ", "dop" + "_v1_" + HEX[:64], " here"),
    ("sendgrid-key", "use ", "S" + "G." + MIXED[:22] + "." + MIXED[:43], " here"),
    ("shopify-token", "use ", "shp" + "at_" + HEX[:32], " here"),
    ("vault-token", "use ", "hv" + "s." + MIXED[:24], " here"),
    ("tailscale-key", "use ", "ts" + "key-auth-" + MIXED[:24], " here"),
    ("linear-key", "use ", "lin" + "_api_" + MIXED[:40], " here"),
    ("notion-token", "use ", "nt" + "n_" + MIXED[:46], " here"),
    ("age-key", "use ", "AGE-" + "SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2, " here"),
    ("telegram-token", "bot123456789:AA", MIXED[:33], " here"),
    ("azure-secret", "abc8Q~", MIXED[:34], " here"),
    ("azure-key", "Account" + "Key=", MIXED[:86] + "==", ";EndpointSuffix"),
    ("share-link", "https://a.example/s/x#v1.", MIXED[:43], " here"),
    ("jwt", "use ", "ey" + "J" + MIXED[:30] + "." + "ey" + "J" + MIXED[:40] + "." + MIXED[:40], " here"),
    ("url-password", "postgres://app:", "correct-horse", "@db.example/main"),
    ("url-password", "https://u:", "p@ss", "@host/x"),
    ("url-token", "git clone https://", MIXED[:30], "@git.example/x.git"),
    ("authorization", "Authorization: Bearer ", MIXED[:30], "\n"),
    ("authorization", "-H 'Authorization: Basic ", "dXNlcjpwYXNz" + "d29yZDE=", "'"),
    ("netrc", "machine api.example login ana password ", "hunter" + "two", "\n"),
    ("basic-auth", "curl -u ana:", "hunter" + "2!", " https://api.example"),
    ("password", "DB_PASSWORD=", "hunter" + "2x", "\n"),
    ("password", "password: '", "corr3ct horse"[:7], "'"),
    ("secret", "API_TOKEN=", MIXED[:20], "\n"),
    ("secret", 'client_secret = "', MIXED[:24], '"'),
    ("secret", "export OTHER_KEY=", MIXED[:24], "\n"),
    ("secret", "apiKey: `", MIXED[:24], "`,"),
]


def entry(raw: str | bytes, entry_id: str = "e1", file: str = "") -> Entry:
    return Entry(entry_id, None, 0, 0, raw if isinstance(raw, bytes) else raw.encode(), file=file)


def message(text: object) -> str:
    return json.dumps(
        {
            "type": "message",
            "id": "m1",
            "message": {"role": "user", "content": [{"type": "text", "text": text}]},
        }
    )


def redacted(raw: str, home: tuple[str, ...] = HOME, users: tuple[str, ...] = ()) -> tuple[str, Report]:
    entries, report = redact_entries([entry(raw)], home=home, users=users)
    return entries[0].raw.decode(), report


def test_every_kind_has_an_example() -> None:
    """No rule of the table is without a test."""
    assert {rule.kind for rule in RULES} == {kind for kind, *_ in EXAMPLES}


@pytest.mark.parametrize(("kind", "before", "secret", "after"), EXAMPLES)
def test_finds_secret(kind: str, before: str, secret: str, after: str) -> None:
    """Each shape is replaced by its kind, and only it."""
    new, report = redacted(message(f"{before}{secret}{after}"))
    assert json.loads(new)["message"]["content"][0]["text"] == f"{before}[redacted:{kind}]{after}"
    assert report.findings == (Finding(kind, "e1", "message.content[0].text", 1),)


@pytest.mark.parametrize(("kind", "before", "secret", "after"), EXAMPLES)
def test_finds_secret_in_nested_json(kind: str, before: str, secret: str, after: str) -> None:
    """Tool arguments as JSON text, twice escaped, are read like any other text."""
    inner = json.dumps({"command": f"{before}{secret}{after}", "n": [1, {"deep": "x"}]})
    line = json.dumps(
        {"message": {"content": [{"type": "toolCall", "arguments": json.dumps({"again": inner})}]}}
    )
    new, report = redacted(line)
    again = json.loads(json.loads(json.loads(new)["message"]["content"][0]["arguments"])["again"])
    assert again["command"] == f"{before}[redacted:{kind}]{after}"
    assert [f.kind for f in report.findings] == [kind]


@pytest.mark.parametrize(("kind", "before", "secret", "after"), EXAMPLES)
def test_finds_secret_outside_json(kind: str, before: str, secret: str, after: str) -> None:
    """Damaged lines and side files are redacted as text."""
    broken = '{"type":"message","text":"' + f"{before}{secret}{after}"
    assert secret not in redacted(broken)[0]
    side, _ = redact_entries([entry(f"{before}{secret}{after}", file="tool-results/x.txt")])
    assert side[0].raw.decode() == f"{before}[redacted:{kind}]{after}"


def test_finds_key_in_escaped_line_breaks() -> None:
    """A private key in code that writes \\n as two characters, and one that was cut off, are found whole."""
    for text in (pem("\\n"), pem("\\\\n"), pem()[:200], pem("\r\n")):
        new, report = redacted(message(f"x = '{text}' end"))
        assert "MIIE" not in new
        assert [f.kind for f in report.findings] == ["private-key"]


def test_finds_escaped_characters() -> None:
    """A serializer that writes letters or slashes as escapes hides nothing."""
    token = "gh" + "p_" + MIXED[:36]
    escaped = "".join(f"\\u{ord(c):04x}" for c in token)
    assert redacted(f'{{"text":"a {escaped} b"}}')[0] == '{"text": "a [redacted:github-token] b"}'.replace(
        ": ", ":", 1
    )
    assert (
        redacted('{"u":"https:\\/\\/ana:hunter2x@h.example\\/x"}')[0]
        == '{"u":"https://ana:[redacted:url-password]@h.example/x"}'
    )


def test_member_names_tell_secrets() -> None:
    """A value with no shape of its own is known by the name of its member."""
    line = json.dumps(
        {"password": "hunter2!", "api_key": MIXED[:20], "token_count": MIXED[:20], "max_tokens": 4096}
    )
    new = json.loads(redacted(line)[0])
    assert new == {
        "password": "[redacted:password]",
        "api_key": "[redacted:secret]",
        "token_count": MIXED[:20],
        "max_tokens": 4096,
    }


@pytest.mark.parametrize(
    "text",
    [
        "the token is missing; password: required; secret = None",
        "token: string, apiKey: process.env.API_KEY, password = getpass()",
        "PASSWORD=$PASSWORD TOKEN=${TOKEN} API_KEY=<your key> SECRET=xxxxxxxx",
        "input_tokens: 123456789, tokenizer=bert-base-uncased-v2, key = items[0]",
        "class sk-fading-circle-large-animation and task-something-rather-long-here",
        "https://example.com/home/page and src/home/index.ts and https://a.example:8080/x@y",
        "ssh_key=~/.ssh/id_ed25519 and api_key_file=/etc/app/key.pem",
        "see -----BEGIN PUBLIC KEY----- and the words PRIVATE KEY",
        "uuid 550e8400-e29b-41d4-a716-446655440000 sha 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    ],
)
def test_leaves_ordinary_text(text: str) -> None:
    """Names, types, placeholders, numbers and hashes are no secrets; the line keeps every byte."""
    line = message(text)
    assert redacted(line) == (line, Report(()))


PLACES = [
    ("/home/ana/work/x.py", "~/work/x.py"),
    ("/home/bob and /Users/Eve/Library", "~ and ~/Library"),
    ("file:///home/ana/x", "file://~/x"),
    ("C:\\Users\\Ana\\proj and c:/Users/ana/x", "~\\proj and ~/x"),
    ("C:\\Users\\Ana Maria\\proj", "~\\proj"),
    ("%2Fhome%2Fana%2Fproj", "~%2Fproj"),
    ("~/.claude/projects/-home-ana-work-x/a.jsonl", "~/.claude/projects/~-work-x/a.jsonl"),
    ("/mnt/c/Users/ana/x", "~/x"),
    ("/home/ana", "~"),
    ("/home/ana-other/x", "~/x"),
    ("/Users/Shared/x and /home/$USER", "/Users/Shared/x and /home/$USER"),
]


@pytest.mark.parametrize(("text", "expected"), PLACES)
def test_homes_become_tilde(text: str, expected: str) -> None:
    """Home folders in every form become ~, and only they."""
    assert json.loads(redacted(message(text))[0])["message"]["content"][0]["text"] == expected


def test_named_homes_of_any_shape() -> None:
    """A home that is named is found wherever it is; a longer name that starts like it is not."""
    new, _ = redacted(
        message("/home2/x /home2ed/y /srv/people/li/z -home2-x /tmp/-srv-people-li-z"),
        home=("/home2", "/srv/people/li/"),
    )
    assert json.loads(new)["message"]["content"][0]["text"] == "~/x /home2ed/y ~/z -home2-x /tmp/~-z"


def test_user_names() -> None:
    """A user name goes where it stands for the person, and stays where it is a word."""
    new, _ = redacted(message("ana@laptop:~$ ssh ana@host; banana@x; ana is a word"), users=("ana",))
    text = json.loads(new)["message"]["content"][0]["text"]
    assert text == "[redacted:user-name]@laptop:~$ ssh [redacted:user-name]@host; banana@x; ana is a word"


def test_structure_is_never_touched() -> None:
    """Ids stay as they are, whatever they look like; inside tool arguments nothing is an id."""
    key = "AK" + "IA" + "IOSFODNN7EXAMPLE"
    ids = dict.fromkeys(
        ("id", "uuid", "parentId", "parentUuid", "toolCallId", "tool_use_id", "sessionId"), key
    )
    line = json.dumps({**ids, "message": {"id": key, "content": [{"id": key, "input": {"id": key}}]}})
    new = json.loads(redacted(line)[0])
    assert {name: new[name] for name in ids} == ids
    assert new["message"] == {"id": key, "content": [{"id": key, "input": {"id": "[redacted:aws-key]"}}]}


def test_other_bytes_stay() -> None:
    """Only the string that holds a secret changes: numbers, spaces, order and escapes around it stay."""
    token = "gh" + "p_" + MIXED[:36]
    raw = '{ "b" : 1.50e3,"a":"\\u00e9\\/x" , "t":"' + token + '", "z":[ ]}'
    assert redacted(raw)[0] == '{ "b" : 1.50e3,"a":"\\u00e9\\/x" , "t":"[redacted:github-token]", "z":[ ]}'


def test_names_of_members_are_redacted() -> None:
    """A path that is a member's name is found, and does not stand in the report."""
    new, report = redacted(json.dumps({"snapshot": {"/home/ana/x": {"v": "/home/ana/y"}}}))
    assert json.loads(new) == {"snapshot": {"~/x": {"v": "~/y"}}}
    assert [f.field for f in report.findings] == ["snapshot.*", "snapshot.*.v"]


def test_pictures_are_left() -> None:
    """Base64 of a picture is no text, even where it happens to spell a key."""
    data = "A" * 300 + "AK" + "IA" + "IOSFODNN7EXAMPLE" + "A" * 301
    line = json.dumps({"content": [{"type": "image", "data": data}]})
    assert redacted(line)[0] == line


def test_invalid_bytes_survive() -> None:
    """A line that is no UTF-8 keeps its other bytes."""
    token = ("gh" + "p_" + MIXED[:36]).encode()
    entries, _ = redact_entries([entry(b'{"a":"\xff ' + token + b'","b":"\xfe"')])
    assert entries[0].raw == b'{"a":"\xff [redacted:github-token]","b":"\xfe"'


def test_report_never_tells() -> None:
    """Neither the report nor its lines hold a secret, a part of one or its length."""
    parts = [f"{before}{secret}{after}" for _, before, secret, after in EXAMPLES]
    _, report = redact_entries([entry(message(part), f"e{i}") for i, part in enumerate(parts)], home=HOME)
    told = repr(report) + "\n".join(report.summary_lines())
    shown = {secret[at : at + 8] for _, _, secret, _ in EXAMPLES for at in range(max(1, len(secret) - 7))}
    assert [part for part in shown if part in told] == []
    assert "aws-key: 2 in 2 entries" in report.summary_lines()


def test_summary_of_nothing() -> None:
    """Without findings the summary says so."""
    assert redact_entries([])[1].summary_lines() == ["No secrets and no home paths were found."]


def test_same_secret_same_placeholder() -> None:
    """A reader can tell that two places held the same kind; order and count of entries stay."""
    token = "gh" + "p_" + MIXED[:36]
    entries, report = redact_entries(
        [entry(message(token), "a"), entry(message("clean"), "b"), entry(message(token), "c")]
    )
    assert entries[0].raw == entries[2].raw
    assert [e.id for e in entries] == ["a", "b", "c"]
    assert [f.entry for f in report.findings] == ["a", "c"]


_PIECES = st.one_of(
    st.sampled_from([f"{b}{s}{a}" for _, b, s, a in EXAMPLES]),
    st.sampled_from([text for text, _ in PLACES]),
    st.text(max_size=12),
    st.sampled_from(
        [
            '"',
            "\\",
            "\\n",
            "/home/",
            "password=",
            "token: ",
            "://",
            "@",
            "~",
            "[redacted:",
            "{",
            "}",
            "-home-",
        ]
    ),
)
_TEXTS = st.lists(_PIECES, max_size=8).map("".join)
_VALUES = st.recursive(
    st.one_of(_TEXTS, st.integers(), st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["text", "id", "password", "input", "api_key", "content"]), inner, max_size=3
        ),
        inner.map(json.dumps),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(_VALUES, st.booleans())
def test_twice_equals_once(value: object, ascii_only: bool) -> None:
    """A second pass finds nothing, and every line is still the same JSON but for its strings."""
    raw = json.dumps({"v": value}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    once, _ = redact_entries([entry(raw)], home=HOME, users=("ana",))
    twice, report = redact_entries(once, home=HOME, users=("ana",))
    assert twice == once
    assert report.findings == ()
    json.loads(once[0].raw.decode("utf-8", "surrogatepass"))


@settings(deadline=None)
@given(_TEXTS)
def test_twice_equals_once_outside_json(text: str) -> None:
    """Text that is no JSON is stable too."""
    once, _ = redact_entries([entry(text.encode("utf-8", "surrogatepass"))], home=HOME)
    assert redact_entries(once, home=HOME)[0] == once


@settings(deadline=None)
@given(st.text(alphabet=string.ascii_letters + string.digits + " .:=/_-\n", max_size=400))
def test_clean_text_stays(text: str) -> None:
    """Whatever changes was reported: no finding, no change."""
    line = message(text)
    new, report = redacted(line)
    assert (new == line) == (report.findings == ())


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN " + "PRIVATE KEY-----" + "A" * 20,
        "password=" * 3,
        "://a:",
        "machine ",
        "ey" + "J" + "a.",
        "/home/",
        "curl ",
        "token",
        "\\",
    ],
)
def test_time_is_linear(text: str) -> None:
    """No text makes a rule search for ever: eight times as much takes well under forty times as long."""

    def seconds(count: int) -> float:
        raw = entry(message(text * count))
        started = time.process_time()
        redact_entries([raw], home=HOME, users=("ana",))
        return time.process_time() - started

    small = 20_000 // len(text)
    seconds(small)
    assert seconds(small * 8) < 40 * max(seconds(small), 0.005)


def test_redactor_for_names() -> None:
    """A header line and a title go through the same pass and count in the same report."""
    redactor = Redactor(home=HOME)
    assert redactor.line(b'{"type":"session","cwd":"/home/ana/x"}') == b'{"type":"session","cwd":"~/x"}'
    assert redactor.text("work in /home/ana/x", "name") == "work in ~/x"
    assert [(f.entry, f.field) for f in redactor.report().findings] == [("header", "cwd"), ("name", "")]


def test_publishable_kinds() -> None:
    """What was said, done and named is published; prompts, requests, snapshots and unknown kinds are not."""
    assert publishable(View("message", role="user", blocks=(Text("hi"),)))
    for kind in ("compaction", "branch_summary", "label", "session_info", "model_change", "title", "session"):
        assert publishable(View(kind))
    assert not publishable(View("message", role="system"))
    for kind in (
        "attachment",
        "api-request",
        "api-request-shape",
        "api-request-blob",
        "progress",
        "new-kind",
        "damaged",
    ):
        assert not publishable(View(kind))
    assert publishable(View("message", role="user", damaged=True))  # a message that could still be read


def test_withheld_keeps_the_tree() -> None:
    """A prompt snapshot in the chain leaves its place and nothing else; a loose one leaves nothing."""
    raw = {
        "parentUuid": "a",
        "uuid": "b",
        "type": "attachment",
        "cwd": "/home/ana",
        "attachment": {"type": "prompt_snapshot", "systemPrompt": ["secret prompt"]},
        "rendered": ["secret prompt"],
    }
    kept = withheld(entry(json.dumps(raw)))
    assert kept is not None
    assert json.loads(kept.raw) == {
        "type": "attachment",
        "uuid": "b",
        "parentUuid": "a",
        "attachment": {"type": "prompt_snapshot"},
    }
    assert withheld(Entry("x", None, 0, 0, b"{}", loose=True)) is None
    assert withheld(entry(b"not json")) is None
