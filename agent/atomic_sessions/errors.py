"""The errors a person can meet, one tree. No I/O and no formatting beyond one sentence.

    AtomicError                     exit 1
    ├── UsageError                  2   flags or arguments that cannot work together
    ├── NoKeyStoreError             3   no keyring and no key file chosen
    │   ├── KeyringLockedError      3
    │   └── KeyringSilentError      3
    ├── KeyMissingError             4   the key is missing, wrong or malformed
    ├── CacheRefusedError           5   the cache file is foreign or unsafely placed
    │   └── CacheDamagedError       5
    ├── BadSessionFileError         6   a session file that cannot be read
    │   └── FutureFormatError       6
    ├── NotFoundError               7   no session, device or share by that name
    │   └── AmbiguousError          7
    ├── ServiceUnreachableError     8   nothing answers, or what answers is not our service
    ├── ServiceRefusedError         9   the service answered no (code from wire.ErrorCode)
    │   └── NotLoggedInError        9
    ├── ProviderError               10  the model's provider failed
    ├── SealError                   11  sealed bytes that do not verify or open
    ├── SessionExistsError          12  an import of an id that is already here
    ├── ConfirmationError           13  something that needs a person's yes and did not get it
    ├── BusyError                   14  another process is writing this session
    ├── StoreWriteError             15  the disk refused a write
    ├── StoreUnavailableError       16  the store that was chosen cannot be opened or read
    └── UnsupportedError            17  the store that was chosen cannot hold or do this

`message` is one sentence for the person; `mend` says what to do next. Neither ever holds a key,
message text or a secret link.
"""


class AtomicError(Exception):
    """Anything this product reports to a person in one sentence with a mend."""

    exit_code = 1

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.message} {self.mend}".strip()


class UsageError(AtomicError):
    """Flags or arguments that cannot be used like this."""

    exit_code = 2


class NoKeyStoreError(AtomicError):
    """There is no place to keep the key, and none was chosen."""

    exit_code = 3


class KeyringLockedError(NoKeyStoreError):
    """The keyring exists but is locked."""


class KeyringSilentError(NoKeyStoreError):
    """The keyring did not answer in time."""


class KeyMissingError(AtomicError):
    """A cache exists but its key does not, or the key is not the cache's."""

    exit_code = 4


class CacheRefusedError(AtomicError):
    """The file at the cache's path is not one we may open."""

    exit_code = 5


class CacheDamagedError(CacheRefusedError):
    """The right key does not open the cache: bytes of it were altered. What can be read can be salvaged."""

    def __init__(self, message: str, mend: str = "Run: atomic doctor --repair") -> None:
        super().__init__(message, mend)


class BadSessionFileError(AtomicError):
    """A session file that is unreadable, foreign or empty."""

    exit_code = 6


class FutureFormatError(BadSessionFileError):
    """A session file of a format newer than this program knows."""


class NotFoundError(AtomicError):
    """No session, device, share or project goes by that name."""

    exit_code = 7


class AmbiguousError(NotFoundError):
    """A prefix that fits more than one session."""


class ServiceUnreachableError(AtomicError):
    """Nothing answers at the service's address, or something else does."""

    exit_code = 8


class ServiceRefusedError(AtomicError):
    """The service answered with an error of its own.

    `code` is a value of `wire.ErrorCode`, or text this agent does not know (stop, never start over).
    `session` is the wire id (hex) it is about, if it is about one.
    """

    exit_code = 9

    def __init__(
        self,
        message: str,
        mend: str = "",
        *,
        code: str = "",
        retry_after: float | None = None,
        session: str = "",
    ) -> None:
        super().__init__(message, mend)
        self.code = code
        self.retry_after = retry_after
        self.session = session


class NotLoggedInError(ServiceRefusedError):
    """This machine belongs to no account yet, or no longer."""


class ProviderError(AtomicError):
    """The model's provider failed; `status` is its HTTP status, 0 when the connection broke."""

    exit_code = 10

    def __init__(self, message: str, mend: str = "", *, status: int = 0) -> None:
        super().__init__(message, mend)
        self.status = status


class SealError(AtomicError):
    """Sealed bytes that are malformed, do not verify, or do not open with the keys at hand."""

    exit_code = 11


class SessionExistsError(AtomicError):
    """An import of a session id that is already in the store (B9)."""

    exit_code = 12


class ConfirmationError(AtomicError):
    """A step that needs a person's yes, in a place where nobody can give it."""

    exit_code = 13


class BusyError(AtomicError):
    """Another process holds the claim on this session."""

    exit_code = 14


class StoreWriteError(AtomicError):
    """The disk refused a write to the store."""

    exit_code = 15


class StoreUnavailableError(AtomicError):
    """The store that was chosen cannot be opened or read; no other takes its place (B2)."""

    exit_code = 16


class UnsupportedError(AtomicError):
    """The store that was chosen cannot hold or do this (A2)."""

    exit_code = 17
