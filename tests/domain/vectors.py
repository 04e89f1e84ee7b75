"""Makes tests/data/vectors.json: fixed keys, nonces and the exact bytes of envelope version 1.

Run it only to add vectors; what stands in the file is a promise and is never made anew.
    python tests/domain/vectors.py
"""

import hashlib
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atomic_sessions.entry import Entry, Facts
from atomic_sessions.envelope import ZERO32, Kind
from atomic_sessions.seal import AccountKeys, Place, RecordBody, encode_body, seal

FILE = Path(__file__).parent.parent / "data" / "vectors.json"


def fixed(label: str, size: int) -> bytes:
    """Bytes that are the same for ever."""
    return hashlib.shake_256(f"atomic vector {label}".encode()).digest(size)


def keys() -> AccountKeys:
    return AccountKeys(fixed("account", 16), 1, fixed("key", 32), fixed("id key", 32))


def signer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(fixed("sign", 32))


def place(kind: Kind, n: int, prev: bytes) -> Place:
    return Place(
        kind,
        fixed("session", 16),
        fixed("device", 16),
        fixed("writer", 16),
        n,
        prev,
        1_796_000_000_000,
        fixed("tag", 8),
    )


def bodies() -> dict[str, tuple[Kind, bytes]]:
    """What is sealed in each vector."""
    facts = Facts("pi", "01a22c81-7192-70af-aa13-6f2a524f0b20", "", "/p", "git:host/p", 1_796_000_000_000)
    entry = Entry("e1", None, 1, 1_796_000_000_000, b'{"type":"message","id":"e1"}')
    many = [Entry(f"e{n}", f"e{n - 1}" if n else None, n, n + 1, b"x" * 200) for n in range(50)]
    return {
        "record of one entry": (Kind.RECORD, encode_body(RecordBody(1, facts, [entry], {}))),
        "record of fifty entries": (Kind.RECORD, encode_body(RecordBody(1, facts, many, {}))),
        "tombstone": (Kind.TOMBSTONE, b"dead"),
        "incompressible": (Kind.BLOB, fixed("noise", 5000)),
        "empty": (Kind.CARD, b""),
    }


def main() -> None:
    found = []
    prev, n = ZERO32, 1
    for name, (kind, plain) in bodies().items():
        sealed = seal(keys(), signer(), place(kind, n, prev), plain, fixed(f"nonce {name}", 12))
        found.append(
            {"name": name, "n": n, "prev": prev.hex(), "plain": plain.hex(), "sealed": sealed.raw.hex()}
        )
        prev, n = sealed.id, n + 1
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
