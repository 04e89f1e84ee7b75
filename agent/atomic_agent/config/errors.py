"""What can be wrong with the choice of a store. Two classes, both exit 2, as flags that cannot be used.

    UsageError                2
    ├── SelectionError        2   two sources that conflict, or one that names no store
    └── SettingsError         2   a settings file that cannot be read

Neither repeats what a source holds beyond names of members and paths: options of a driver may be secrets.
"""

from atomic_sessions.errors import UsageError


class SelectionError(UsageError):
    """Where sessions go is said twice, or in a way that names no store."""


class SettingsError(UsageError):
    """A settings file that is there and cannot be used."""
