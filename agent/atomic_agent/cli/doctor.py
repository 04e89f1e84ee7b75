"""`atomic doctor`: what is well on this machine, what is not, and the mend. Changes nothing without `--repair`.

Every check stands alone, so that it answers on a machine where little works. Never prints a secret or
a session's text; what the service sends is verified and not kept.
"""

import argparse
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import sqlcipher3.dbapi2 as sqlite
from msgspec import Struct

from atomic_agent.cache import files, outbox
from atomic_agent.cache.cache import Cache
from atomic_agent.capture import sources
from atomic_agent.cli.terminal import age, emit_json, now_ms, one_line, say
from atomic_agent.keys.keystore import Membership, Secrets
from atomic_agent.locations import home
from atomic_agent.stores.health import Check, Store, examine, guarded
from atomic_agent.sync.client import CONNECT_SECONDS, MENDS, Client, is_loopback
from atomic_agent.sync.identity import check_continuation, sign_in
from atomic_agent.sync.run import LAST_SYNC
from atomic_sessions import ledger, wire
from atomic_sessions.errors import NotLoggedInError, ServiceUnreachableError, UsageError

ASK_SECONDS = 5.0
CLOCK_WARNING_SECONDS = 120
CLOCK_PROBLEM_SECONDS = 300
STALE_SYNC_MS = 86_400_000
ASK_OPERATOR = "Do not pair or share until you know why; ask the service's operator."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="mend a damaged cache: what is readable goes into a new one, the damaged file is kept beside it",
    )
    parser.add_argument(
        "--yes", action="store_true", help="with --repair: set a cache aside of which nothing can be read"
    )


def run(options: argparse.Namespace) -> int:
    if options.yes and not options.repair:
        raise UsageError("--yes answers a question that only --repair asks.", "Add --repair.")
    if options.repair:
        from atomic_agent.cli import repair

        return repair.run(yes=options.yes, json=options.json)
    found = checks(now_ms)
    problems = sum(check.state == "problem" for check in found)
    if options.json:
        emit_json({"checks": found, "problems": problems})
        return 1 if problems else 0
    for check in found:
        print(f"{check.state:<8} {check.name:<11} {one_line(check.said)}")
        if check.mend:
            print(f"{'':<20} {one_line(check.mend)}")
    say(f"{problems} problem{'s' if problems > 1 else ''} found." if problems else "No problem found.")
    return 1 if problems else 0


def checks(now: Callable[[], int]) -> list[Check]:
    """Everything there is to look at, each error told once."""
    store = Store()
    try:
        found = [
            *guarded("versions", versions),
            *guarded("git", git),
            *examine(home(), store),
            *account(store, now),
            *agents(store.cache),
        ]
    finally:
        if store.cache is not None:
            store.cache.close()
    return told_once(found)


def told_once(found: list[Check]) -> list[Check]:
    """A problem that stops later checks too is said where it was met first."""
    first: dict[str, str] = {}
    told = []
    for check in found:
        before = first.setdefault(check.said, check.name) if check.state == "problem" else check.name
        if before != check.name:
            mend = "Mend that first."
            check = Check(check.name, "warning", f"Not looked into, for what '{before}' says.", mend)  # noqa: PLW2901
        told.append(check)
    return told


def versions() -> Iterator[Check]:
    connection = sqlite.connect(":memory:")
    try:
        cipher = connection.execute("PRAGMA cipher_version").fetchone()
    finally:
        connection.close()
    said = (
        f"atomic {version('atomic-sessions')}, Python {platform.python_version()},"
        f" cryptography {version('cryptography')},"
    )
    if cipher and cipher[0]:
        yield Check("versions", "ok", f"{said} SQLCipher {cipher[0]}.")
    else:
        yield Check(
            "versions", "problem", f"{said} and a SQLite without cipher.", "Reinstall atomic-sessions."
        )


def git() -> Iterator[Check]:
    mend = "Install git: without it a project is known by its folder alone, not on every machine."
    program = shutil.which("git")
    if program is None:
        yield Check("git", "warning", "git is not on the PATH.", mend)
        return
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=ASK_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        yield Check("git", "warning", f"{program} does not run.", mend)
        return
    yield Check("git", "ok", f"{done.stdout.strip()}.")


# --- the account -------------------------------------------------------------------------


class Answer(Struct, frozen=True):
    """What one request showed: is it ours, which version, and how far its clock is ahead of ours."""

    status: int
    kind: str
    api: str | None
    ahead_seconds: float | None


def account(store: Store, now: Callable[[], int]) -> Iterator[Check]:
    """The service, its clock, this machine's place in the account, and what waits."""
    if store.secrets is None:
        return
    mine = store.secrets.membership
    if mine is None:
        yield Check("account", "ok", "This machine is in none; sessions stay on it.")
        return
    yield Check("account", "ok", f"{mine.url}, this machine is '{mine.device.name}'.")
    heard: list[Answer] = []
    reached = list(guarded("service", partial(_service, mine.url, now, heard)))
    yield from reached
    if heard and reached[-1].state != "problem":
        yield clock(heard[0].ahead_seconds)
        yield from guarded("device", partial(_device, mine, store.secrets, now), otherwise=ASK_OPERATOR)
    cache = store.cache
    if cache is not None:
        yield from guarded("sync", partial(_waiting, cache, now()))
        yield from guarded("refused", partial(_refused, cache))


def _service(url: str, now: Callable[[], int], heard: list[Answer]) -> Iterator[Check]:
    answer = ask(url, now)
    heard.append(answer)
    yield service(url, answer)


def ask(url: str, now: Callable[[], int]) -> Answer:
    """One request without a token; a service of ours refuses it and names itself in doing so."""
    host = urlsplit(url).hostname or ""
    timeout = httpx.Timeout(ASK_SECONDS, connect=min(ASK_SECONDS, CONNECT_SECONDS))
    try:
        with (
            httpx.Client(timeout=timeout, follow_redirects=False, trust_env=not is_loopback(host)) as client,
            client.stream("GET", f"{url}/v1/ledger", headers={"Accept": wire.CONTENT_TYPE}) as reply,
        ):
            headers, status, at = reply.headers, reply.status_code, now()
    except httpx.TimeoutException:
        raise ServiceUnreachableError(
            f"{url} did not answer in time.", "Nothing is lost; try again later."
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
        # The last two: what httpx makes of a proxy variable it cannot use.
        # A clock that is far off shows itself first in certificates that seem not to be valid.
        mend = (
            "Check this machine's clock, and whether a proxy stands in between."
            if "CERTIFICATE" in str(error).upper()
            else "Check the address and the network; what is not synced is kept."
        )
        raise ServiceUnreachableError(f"{url} cannot be reached ({type(error).__name__}).", mend) from None
    kind = headers.get("content-type", "").split(";")[0]
    return Answer(status, kind, headers.get(wire.API_HEADER), _ahead(headers.get("date", ""), at))


def _ahead(date: str, at: int) -> float | None:
    try:
        # Dates are whole seconds, cut: half of one is the best guess of the rest.
        return parsedate_to_datetime(date).timestamp() + 0.5 - at / 1000
    except (ValueError, OverflowError):
        return None


def service(url: str, answer: Answer) -> Check:
    """Is what answers ours, and of our version."""
    if answer.api is None:
        kind = answer.kind or "no content type"
        said = f"What answers at {url} is not an Atomic service (status {answer.status}, {kind})."
        mend = "Check the address; a proxy or a login page may stand in between."
        return Check("service", "problem", said, mend)
    if answer.status >= 500:
        said = f"{url} answers with status {answer.status}."
        return Check("service", "problem", said, MENDS[wire.ErrorCode.UNAVAILABLE])
    if answer.api != wire.API_VERSION:
        said = f"{url} speaks version {answer.api} of the protocol, this program version {wire.API_VERSION}."
        return Check("service", "warning", said, MENDS[wire.ErrorCode.UPGRADE])
    return Check("service", "ok", f"It answers, protocol version {answer.api}.")


def clock(ahead: float | None) -> Check:
    """Our clock against the service's: the newest message decides, so the clocks must agree."""
    if ahead is None:
        said = "The service does not say what time it is."
        return Check("clock", "warning", said, "Ask its operator whether a proxy strips the Date header.")
    off = abs(ahead)
    if off <= CLOCK_WARNING_SECONDS:
        return Check("clock", "ok", f"Agrees with the service's to {max(1, round(off))} s.")
    said = f"This machine's clock is {_span(off)} {'behind' if ahead > 0 else 'ahead of'} the service's."
    mend = "Set the clock from the network (Linux: sudo timedatectl set-ntp true), or tell its operator."
    return Check("clock", "problem" if off > CLOCK_PROBLEM_SECONDS else "warning", said, mend)


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _device(mine: Membership, secrets: Secrets | None, now: Callable[[], int]) -> Iterator[Check]:
    """This machine is still in the list of devices, and the list is the one it knows, grown at most."""
    kept = secrets.token if secrets is not None else None
    fresh = kept is not None and kept.expires_at > now() + 60_000

    def renew(client: Client) -> wire.Token:
        return sign_in(client, mine.account, mine.device.id, mine.device.sign_key)

    with Client(mine.url, token=kept.text if kept and fresh else "", sign_in=renew, timeout=10.0) as client:
        entries = client.ledger()
    found = ledger.verify(entries, mine.account)
    check_continuation(entries, mine)
    if found.active(mine.device.id) is None:
        raise NotLoggedInError(
            "This machine was removed from the account.", "Pair it again: atomic login URL --join -"
        )
    machines = sum(one.role == "device" and one.removed is None for one in found.members.values())
    yield Check("device", "ok", f"This machine is one of {machines} in the account.")


def _waiting(cache: Cache, now: int) -> Iterator[Check]:
    entries, records = outbox.unsealed_count(cache), outbox.count(cache)
    last = cache.get(LAST_SYNC)
    at = int.from_bytes(last, "big") if last else None
    yield waiting(entries, records, at, now)


def waiting(entries: int, records: int, last: int | None, now: int) -> Check:
    """What is not synced is a warning once the last sync is a day old."""
    ago = "never" if last is None else age(last, now)
    if not entries and not records:
        return Check("sync", "ok", f"Everything is synced; last sync: {ago}.")
    said = f"{entries} entries and {records} records wait; last sync: {ago}."
    if last is not None and now - last < STALE_SYNC_MS:
        return Check("sync", "ok", said)
    return Check("sync", "warning", said, "Run: atomic sync")


def _refused(cache: Cache) -> Iterator[Check]:
    found = outbox.quarantined(cache)
    if not found:
        yield Check("refused", "ok", "No record from another machine was refused.")
    for reason, count in found:
        mend = "Update atomic-sessions on all machines and run: atomic sync"
        yield Check("refused", "warning", f"{count} records were refused: {reason}", mend)


# --- agents ------------------------------------------------------------------------------


def agents(cache: Cache | None) -> Iterator[Check]:
    for agent in sources.AGENTS:
        yield from guarded(agent, partial(_agent, agent, cache))


def _agent(agent: str, cache: Cache | None) -> Iterator[Check]:
    folders = [root for root in sources.roots(agent) if root.is_dir()]
    if not folders:
        yield Check(agent, "ok", "No sessions on this machine.")
        return
    found = [one.path for root in folders for one in sources.find(agent, root)]
    said = f"{len(found)} files in {', '.join(map(str, folders))}"
    if cache is None:
        yield Check(agent, "ok", f"{said}.")
        return
    new = sum(_is_new(cache, path) for path in found)
    yield Check(
        agent, "ok", f"{said}, {f'{new} not captured yet: atomic capture' if new else 'all captured'}."
    )


def _is_new(cache: Cache, path: Path) -> bool:
    """Never read, or changed since; paths are kept as capture keeps them."""
    try:
        found = path.stat()
    except FileNotFoundError:  # its agent has just moved it away
        return False
    name = os.fsencode(path).decode("utf-8", "backslashreplace")
    return files.stats(cache, name) != (found.st_size, found.st_mtime_ns, found.st_ino)
