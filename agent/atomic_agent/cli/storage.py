"""The store a command works with: chosen from flags, variables and settings, opened, and chosen again before a new
conversation is saved (B6, B11). Knows no command.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from atomic_agent.cli.terminal import Progress, now_ms, say, welcome
from atomic_agent.cli.trust import flags_of, placement
from atomic_agent.config import way_back
from atomic_agent.config.selection import MemorySelection, Selection
from atomic_agent.locations import home
from atomic_agent.stores.journal import Journal
from atomic_agent.stores.opening import Opened, open_store
from atomic_agent.stores.port import Store
from atomic_sessions.context import Settings
from atomic_sessions.errors import AtomicError


class Launch:
    """The open store of one process. `options` are those it was chosen by."""

    def __init__(self, options: argparse.Namespace, *, ask: bool) -> None:
        self._flags = flags_of(options)
        self._line = Progress()
        approve = getattr(options, "trust", False)
        placed = placement(self._flags, os.environ, ask=ask, approve=approve)
        self._opened = self._open(placed.sessions.selection)

    @property
    def store(self) -> Store:
        return self._opened.store

    @property
    def journal(self) -> Journal | None:
        """The default store's home and secrets; None with any other store."""
        return self._opened.journal

    @property
    def keeps(self) -> bool:
        """False when everything ends with this process."""
        return not isinstance(self._opened.selection, MemorySelection)

    @property
    def syncs(self) -> bool:
        """True when what is saved travels to other machines: the default store, on a machine with an account."""
        return self.journal is not None and self.journal.secrets.membership is not None

    def reselect(self, leave: Callable[[], None]) -> bool:
        """Choose again, as before a new conversation is saved: settings or trust may say something else by now.
        True when this is another store, which is open then; the former is closed after `leave` was called, to let go
        of what is open in it. Whatever is raised before that leaves everything as it was."""
        placed = placement(self._flags, os.environ, ask=False, tell=lambda _: None)
        if placed.sessions.selection == self._opened.selection:
            return False
        opened = self._open(placed.sessions.selection)
        try:
            leave()
        except BaseException:
            opened.close()
            raise
        self._opened.close()
        self._opened = opened
        return True

    def way_back(self, session: str) -> str | None:
        """The command that opens a session of this store again; None when there is none."""
        arguments = way_back.resume_arguments(self._opened.selection, session)
        return None if arguments is None else way_back.command(arguments)

    def picks(self) -> Settings:
        """What was picked last on this machine; nothing where nothing is kept."""
        from atomic_agent.turns import picks

        return picks.load(home()) if self.keeps else Settings()

    def keep_picks(self, found: Settings) -> None:
        """Remember them for the next launch. A disk that refuses does not undo the turn."""
        from atomic_agent.turns import picks

        if self.keeps:
            try:
                picks.save(home(), found)
            except AtomicError as error:
                say(f"What was picked is not remembered: {error}")
        self._opened.tell(say)

    def leave(self, found: Settings | None) -> None:
        """At a clean exit: save what was picked since the last turn, if anything was (A7)."""
        if found is None:
            return
        try:
            self._opened.save_picks(found)
        except AtomicError as error:
            say(f"What was picked is not remembered: {error}")
        self.keep_picks(found)

    def close(self) -> None:
        self._opened.close()

    def _progress(self, done: int, total: int) -> None:
        self._line.show(f"Looking at earlier sessions: {done}/{total}")
        if done == total:
            self._line.clear()

    def _open(self, selection: Selection) -> Opened:
        opened = open_store(selection, home(), now_ms, os.environ, progress=self._progress)
        welcome(opened.made_key)
        for notice in opened.notices:
            say(notice)
        return opened


@contextmanager
def launched(options: argparse.Namespace, *, ask: bool = False) -> Iterator[Launch]:
    """The store that the options choose, open for this block. With `ask` a person may be asked whether a project's
    settings count."""
    launch = Launch(options, ask=ask)
    try:
        yield launch
    finally:
        launch.close()
