"""Where things lie on this machine. Makes no file and reads no content."""

import os
from pathlib import Path

from msgspec import Struct


class Home(Struct, frozen=True):
    """The product's own folder, `~/.atomic` or what ATOMIC_HOME names (B1, C1)."""

    root: Path

    @property
    def cache(self) -> Path:
        """The encrypted cache, shared with workflow runs."""
        return self.root / "workflows" / "journal.sqlite"

    @property
    def keyinfo(self) -> Path:
        """Which key the cache needs, without telling it."""
        return self.root / "workflows" / "journal.keyinfo"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def keystore(self) -> Path:
        """Everything secret of this machine, sealed under the local key."""
        return self.keys / "keystore"

    @property
    def key_choice(self) -> Path:
        """Where this machine keeps its local key, chosen once."""
        return self.keys / "store.json"

    @property
    def passphrase_file(self) -> Path:
        return self.keys / "passphrase.key"

    @property
    def picks(self) -> Path:
        """The provider, model and effort picked last; holds nothing secret."""
        return self.root / "picks.json"

    @property
    def pairing(self) -> Path:
        """What a pairing in progress has seen; holds nothing secret."""
        return self.root / "pairing"


def home() -> Home:
    """The home of this process."""
    chosen = os.environ.get("ATOMIC_HOME", "")
    return Home(Path(chosen).expanduser().absolute() if chosen else Path.home() / ".atomic")
