"""What the service is told by its environment. Reads variables and secret files, opens nothing else.

A secret may stand in a file instead: `ATOMIC_SERVER_SECRET_FILE=/run/secrets/x` is the same as the
content of that file in `ATOMIC_SERVER_SECRET`. No secret ever appears in a repr, log or message.
"""

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from atomic_sessions.errors import UsageError

DEFAULT_QUOTA = 50 * 1024**3
MIN_SECRET_BYTES = 32
LOG_LEVELS = ("debug", "info", "warning", "error")


class S3Settings(Struct, frozen=True):
    """Where objects go. `public_endpoint` is how clients reach the same bucket."""

    endpoint: str
    public_endpoint: str
    bucket: str
    region: str
    access_key: str
    secret_key: str

    def __repr__(self) -> str:
        return f"S3Settings(endpoint={self.endpoint!r}, bucket={self.bucket!r})"


class Settings(Struct, frozen=True):
    """Settings of one replica. Exactly one of `s3` and `blob_dir` is set.

    `dev` accepts log-ins addressed to any loopback origin, because a person may type `localhost`.
    """

    database_url: str
    server_secret: bytes
    public_url: str
    s3: S3Settings | None = None
    blob_dir: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8480
    log_level: str = "info"
    quota: int = DEFAULT_QUOTA
    pool_size: int = 16
    dev: bool = False

    def __repr__(self) -> str:
        return (
            f"Settings(public_url={self.public_url!r}, host={self.host!r}, port={self.port}, s3={self.s3!r})"
        )


def optional(env: Mapping[str, str], name: str) -> str | None:
    """A variable, or the content of the file that `NAME_FILE` points to."""
    value, path = env.get(name), env.get(f"{name}_FILE")
    if value and path:
        raise UsageError(f"Both {name} and {name}_FILE are set.", "Keep one of them.")
    if path:
        try:
            value = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"The file named by {name}_FILE cannot be read.", "Check its path and mode."
            ) from error
    return value.strip() or None if value else None


def required(env: Mapping[str, str], name: str, purpose: str) -> str:
    """A variable that has no default; the error names it and what it is for."""
    value = optional(env, name)
    if value is None:
        raise UsageError(f"{name} is not set.", f"Set {name} or {name}_FILE to {purpose}.")
    return value


def database_url(env: Mapping[str, str]) -> str:
    """How the service's own role (`atomic_web`) reaches Postgres."""
    return required(env, "ATOMIC_DATABASE_URL", "postgresql://atomic_web:PASSWORD@HOST/DATABASE")


def owner_database_url(env: Mapping[str, str]) -> str:
    """How the role that runs migrations (`atomic_owner`) reaches Postgres."""
    return required(env, "ATOMIC_OWNER_DATABASE_URL", "postgresql://atomic_owner:PASSWORD@HOST/DATABASE")


def log_level(env: Mapping[str, str]) -> str:
    """ATOMIC_LOG_LEVEL, `info` by default."""
    level = (optional(env, "ATOMIC_LOG_LEVEL") or "info").lower()
    if level not in LOG_LEVELS:
        raise UsageError("ATOMIC_LOG_LEVEL is not a level.", f"Use one of {', '.join(LOG_LEVELS)}.")
    return level


def read(env: Mapping[str, str]) -> Settings:
    """The settings of `serve`. Raises UsageError for the first variable that is missing or wrong."""
    s3, folder = _s3(env), optional(env, "ATOMIC_BLOB_DIR")
    if (s3 is None) == (folder is None):
        raise UsageError(
            "Exactly one place for objects is needed.",
            "Set the ATOMIC_S3_* variables for an S3 server, or ATOMIC_BLOB_DIR for a folder.",
        )
    return Settings(
        database_url=database_url(env),
        server_secret=_secret(
            required(env, "ATOMIC_SERVER_SECRET", "the output of `openssl rand -base64 32`")
        ),
        public_url=_public_url(
            required(env, "ATOMIC_PUBLIC_URL", "the address people use, such as https://host")
        ),
        s3=s3,
        blob_dir=Path(folder) if folder else None,
        host=optional(env, "ATOMIC_HOST") or "127.0.0.1",
        port=_number(env, "ATOMIC_PORT", 8480, 0, 65535),
        log_level=log_level(env),
        quota=_number(env, "ATOMIC_QUOTA_BYTES", DEFAULT_QUOTA, 1, 1 << 62),
        pool_size=_number(env, "ATOMIC_POOL_SIZE", 16, 4, 500),
    )


def _s3(env: Mapping[str, str]) -> S3Settings | None:
    endpoint = optional(env, "ATOMIC_S3_ENDPOINT")
    if endpoint is None:
        return None
    return S3Settings(
        endpoint=endpoint,
        public_endpoint=optional(env, "ATOMIC_S3_PUBLIC_ENDPOINT") or endpoint,
        bucket=required(env, "ATOMIC_S3_BUCKET", "the bucket's name"),
        region=optional(env, "ATOMIC_S3_REGION") or "us-east-1",
        access_key=required(env, "ATOMIC_S3_ACCESS_KEY", "the access key of the bucket"),
        secret_key=required(env, "ATOMIC_S3_SECRET_KEY", "the secret key of the bucket"),
    )


def _secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(text, validate=True)
    except binascii.Error:
        secret = b""
    if len(secret) < MIN_SECRET_BYTES:
        raise UsageError(
            f"ATOMIC_SERVER_SECRET is not base64 of at least {MIN_SECRET_BYTES} bytes.",
            "Make one with `openssl rand -base64 32`, the same for every replica.",
        )
    return secret


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    if (
        parts.scheme not in {"http", "https"}
        or not parts.netloc
        or parts.query
        or parts.path not in {"", "/"}
    ):
        raise UsageError(
            "ATOMIC_PUBLIC_URL is not an address.", "Write it as https://host or https://host:port."
        )
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _number(env: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = optional(env, name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise UsageError(f"{name} is not a number from {low} to {high}.", f"Correct {name} or leave it out.")
    return int(text)
