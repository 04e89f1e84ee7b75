"""What a provider's refusal means to a person, and whether to try again. Knows no client library.

Never repeats the provider's own message: it may quote the key or the prompt.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime

from atomic_agent.turns.providers.port import (
    MAX_RETRIES,
    MAX_RETRY_SECONDS,
    Done,
    Endpoint,
    Event,
    Notice,
    Request,
)
from atomic_sessions.errors import ProviderError

_CODE = re.compile(r"[a-z][a-z0-9_.]{1,48}")
RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})


class Refused(Exception):  # caught below, never seen by a person
    """One attempt failed before it was over: `status` 0 is a broken connection."""

    def __init__(self, status: int, *, after: str = "", code: object = None, html: bool = False) -> None:
        super().__init__()
        self.status = status
        self.after = seconds(after)
        self.code = code if isinstance(code, str) and _CODE.fullmatch(code) else ""
        self.html = html


def seconds(header: str) -> float | None:
    """A Retry-After header: seconds or a date."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None


def retrying(request: Request, attempt: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    """The events of an attempt, tried again while nothing was said and another try makes sense."""
    tries = 0
    while True:
        spoken = False
        try:
            for event in attempt():
                spoken = True
                yield event
                if isinstance(event, Done):
                    return
            raise Refused(0)
        except Refused as refused:
            wait = _wait(refused, tries)
            if spoken or wait is None:
                raise explain(request, refused, spoken=spoken) from None
            tries += 1
            reason = f"answered {refused.status}" if refused.status else "did not answer"
            yield Notice(
                f"{request.endpoint.provider} {reason}; trying again in {wait:.0f} s ({tries} of {MAX_RETRIES})."
            )
            time.sleep(wait)


def _wait(refused: Refused, tries: int) -> float | None:
    """How long to wait before another try, None for no other try."""
    if tries >= MAX_RETRIES or refused.html or (refused.status and refused.status not in RETRIED):
        return None
    if refused.after is not None:
        return refused.after if refused.after <= MAX_RETRY_SECONDS else None
    return float(2**tries) * random.uniform(0.5, 1.0)


def explain(request: Request, refused: Refused, *, spoken: bool) -> ProviderError:
    """The refusal as one sentence and what to do."""
    at, status = request.endpoint, refused.status
    detail = f" ({refused.code})" if refused.code else ""
    again = "Nothing was saved; send the prompt again."
    if spoken and status == 0:
        return ProviderError(f"The answer of {at.provider} was cut off.", again)
    if refused.html:
        return _wrong_address(at, status)
    match status:
        case 0:
            return ProviderError(f"{at.provider} does not answer at {address(at)}.", _check_address(at))
        case 401 | 403:
            return ProviderError(f"{at.provider} refuses the key{detail}.", set_key(at), status=status)
        case 402:
            return ProviderError(
                f"{at.provider} asks for payment{detail}.", "Check the account's balance.", status=status
            )
        case 404:
            mend = f"Check --model and {at.url_name}."
            return ProviderError(
                f"{at.provider} knows no model '{request.model[:80]}' at {address(at)}.", mend, status=status
            )
        case 413:
            mend = "Begin a new session: atomic"
            return ProviderError("The conversation is too long for this model.", mend, status=status)
        case 429:
            when = f"; it asks to wait {refused.after:.0f} s" if refused.after else ""
            return ProviderError(
                f"{at.provider} takes no more requests now{detail}{when}.", again, status=status
            )
    if status >= 500:
        return ProviderError(f"{at.provider} failed with {status}{detail}.", again, status=status)
    mend = "Check --model and --effort, or begin a new session if the conversation has become too long."
    return ProviderError(f"{at.provider} refuses the request with {status}{detail}.", mend, status=status)


def set_key(at: Endpoint) -> str:
    """How to give a provider its key."""
    return f"Set {at.key_name}, or: atomic keys set {at.provider}"


def address(at: Endpoint) -> str:
    """The endpoint's address without a user, a password or a query."""
    return re.sub(r"//[^/@]*@", "//", at.url).partition("?")[0]


def _check_address(at: Endpoint) -> str:
    return f"Check the network and {at.url_name}."


def _wrong_address(at: Endpoint, status: int) -> ProviderError:
    return ProviderError(
        f"What answers at {address(at)} does not speak the protocol of {at.provider}.",
        f"Check {at.url_name}.",
        status=status,
    )
