"""Secrets as words: the pairing words two people compare, and the recovery kit's 24."""

import hashlib

from mnemonic import Mnemonic

from atomic_sessions.errors import KeyMissingError

COMPARED = 4


def compared(transcript: bytes) -> str:
    """Four words (44 bits) of a hash of everything both sides said in a pairing."""
    number = int.from_bytes(hashlib.sha256(b"atomic1/words" + transcript).digest()[:8], "big") >> (
        64 - 11 * COMPARED
    )
    listed = Mnemonic("english").wordlist
    return " ".join(listed[(number >> (11 * at)) & 2047] for at in reversed(range(COMPARED)))


def to_words(secret: bytes) -> str:
    """24 words with a checksum (BIP 39) for 32 bytes."""
    return str(Mnemonic("english").to_mnemonic(secret))


def from_words(text: str) -> bytes:
    """The 32 bytes again; KeyMissingError when a word or the checksum is wrong."""
    words = " ".join(text.lower().split())
    book = Mnemonic("english")
    if len(words.split()) != 24 or not book.check(words):
        raise KeyMissingError(
            "These are not the 24 words of a recovery kit.", "Check each word; the kit has them numbered."
        )
    return bytes(book.to_entropy(words))
