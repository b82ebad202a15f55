"""What the log must not lose yet: features say what they still need of it, and roll it forward in time.

Before the oldest file goes, retention asks here. Rolling forward means that a message somebody waits for (a timer,
a half message, a long delay) is appended again; its old record is then needed no more.
"""

from collections.abc import Callable

from rocketeer.model.offsets import LogOffset
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.flush import Flusher

OldestNeeded = Callable[[], LogOffset | None]
"""The oldest log offset somebody needs; None for none."""
Roll = Callable[[LogOffset], bool]
"""Rolls forward: the log below the given offset will soon be deleted, so what somebody still needs from there
(a pending timer, a half message) is appended again. One call does a bounded slice, a few milliseconds; it
returns True once nothing below the offset is needed any more. Called again until all return True."""


class RetentionGuard:
    """What must be kept of the log: features add `needs` (what they still need) and `rolls` (what appends it
    again)."""

    def __init__(self, log: CommitLog, flusher: Flusher) -> None:
        self.needs: list[OldestNeeded] = []
        self.rolls: list[Roll] = []
        self._log = log
        self._flusher = flusher
        self._rolled_to = LogOffset(0)
        self.rolling = False
        """Whether another slice is wanted soon."""

    def free(self, below: LogOffset) -> bool:
        """One slice of rolling; True when the log below the offset may go."""
        before = self._log.max_offset
        rolled = True
        for roll in self.rolls:
            rolled = roll(below) and rolled  # each gets its slice
        if self._log.max_offset != before:
            self._rolled_to = self._log.max_offset
        self.rolling = not rolled
        # A power failure must not find the old file gone and the new record not yet on disk.
        return rolled and self._flusher.flushed >= self._rolled_to and not self.is_needed(below)

    def is_needed(self, below: LogOffset) -> bool:
        return any((offset := need()) is not None and offset < below for need in self.needs)
