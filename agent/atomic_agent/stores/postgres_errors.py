"""What went wrong between us and a Postgres, in our errors. Repeats no word of the server or the driver: theirs may
hold the user's name, the URL or a line of a session."""

from urllib.parse import SplitResult, urlsplit

from atomic_sessions.errors import AtomicError, StoreUnavailableError, StoreWriteError

_CHECK = "Check the database and the URL of the driver's options."
_WRITES = {
    "53100": ("The disk of {} is full.", "Make room on it, then do it again."),
    "25006": ("{} can only be read.", "Use the primary server, or make it writable."),
    "42501": ("{} does not let this user write.", "Grant the user what it needs on its tables."),
}
"""SQLSTATEs of a refused write; of those not named here, 53 is a want of means and 54 a limit."""


def shown(url: str) -> str:
    """Where a URL leads, without user, password and parameters; nothing of one that is not clear enough to tell
    them apart."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "postgres"
    # A password with a bare / ? or # ends the address early, and its rest would be shown as the database.
    if "@" in url.removeprefix(f"{parts.scheme}://{parts.netloc}"):
        return "postgres"
    host = parts.netloc.rpartition("@")[2]
    return f"postgres://{host}{_database(parts)}"


def _database(parts: SplitResult) -> str:
    return parts.path if parts.path != "/" else ""


def of_connecting(place: str, error: Exception) -> StoreUnavailableError:
    """Why a connection could not be made."""
    state = _state(error)
    if state.startswith("28"):
        return StoreUnavailableError(f"{place} refused the login.", "Check user and password in the URL.")
    if state == "3D000":
        return StoreUnavailableError(f"{place}: there is no such database.", "Make it: createdb NAME")
    if state == "53300":
        return StoreUnavailableError(
            f"{place} has no connection left.", "Try again, or raise max_connections."
        )
    if state == "57P03":
        return StoreUnavailableError(f"{place} is starting or stopping.", "Try again in a moment.")
    if isinstance(error, OSError):
        return StoreUnavailableError(f"{place} cannot be reached.", _CHECK)
    if isinstance(error, ValueError):
        return StoreUnavailableError("The URL of the database cannot be used.", _CHECK)
    return StoreUnavailableError(f"{place} does not let us in ({state or type(error).__name__}).", _CHECK)


def of_a_statement(place: str, error: Exception) -> AtomicError:
    """Why a statement failed over a connection that is still there."""
    state = _state(error)
    if state in _WRITES:
        message, mend = _WRITES[state]
        return StoreWriteError(message.format(place), mend)
    if state[:2] in {"53", "54"}:
        return StoreWriteError(f"{place} refused a write ({state}).", "Look into the server's log.")
    if state in {"42P01", "42703"}:
        return StoreUnavailableError(
            f"The tables of {place} are not those that we make.", 'Choose another "prefix" in the options.'
        )
    return StoreUnavailableError(
        f"{place} refused a statement ({state or type(error).__name__}).", "Look into the server's log."
    )


def gone(place: str, *, entering: bool = False) -> StoreUnavailableError:
    """The connection broke; `entering`: while the server was told to keep what it has."""
    if entering:
        return StoreUnavailableError(
            f"{place} went away, and whether it kept the last change is not known.",
            "Do it again: what is there is not entered twice.",
        )
    return StoreUnavailableError(f"{place} went away; nothing was changed.", "Do it again.")


def _state(error: Exception) -> str:
    found = getattr(error, "sqlstate", None)
    return found if isinstance(found, str) else ""
