"""The short-lived process that `atomic devices add` leaves behind: when the other machine has committed,
post our reveal. Holds no key: the reveal is sealed already.

`python -m atomic_agent.account.responder` reads one JSON line {"url", "mailbox", "reveal", "seen"}.
"""

import base64
import json
import sys
import time
from pathlib import Path

from atomic_agent import private_files
from atomic_agent.sync.client import Client
from atomic_sessions import wire
from atomic_sessions.errors import AtomicError, ServiceUnreachableError

POLL_SECONDS = 0.3


def respond(url: str, mailbox: bytes, reveal: bytes, seen: Path) -> None:
    """Wait for the commitment, write down which one it was, then reveal. Ends with the mailbox."""
    deadline = time.monotonic() + wire.MAILBOX_SECONDS
    with Client(url) as client:
        while time.monotonic() < deadline:
            try:
                commitment = client.mailbox(mailbox).slots.get("commit")
            except ServiceUnreachableError:
                commitment = None
            if commitment is not None:
                private_files.make_folder(seen.parent)
                private_files.write(seen, commitment)
                client.mailbox_post(mailbox, wire.MailboxPost("reveal", reveal))
                return
            time.sleep(POLL_SECONDS)


def main() -> None:
    request = json.loads(sys.stdin.readline())
    try:
        respond(
            request["url"],
            bytes.fromhex(request["mailbox"]),
            base64.b64decode(request["reveal"]),
            Path(request["seen"]),
        )
    except AtomicError:
        # The mailbox is over or was used; whoever waits learns it from the service.
        sys.exit(1)


if __name__ == "__main__":
    main()
