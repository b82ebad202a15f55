"""The leader's count: up to where every member of the in-sync set has the log, and who waits for that. Pure.

While the set is being changed both sets count, the one before and the one after: whichever of them the
transaction left in force, nothing was confirmed that it does not have. With fewer
members than `min_in_sync` nothing is confirmed.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from rocketeer.answers import AnswersInOrder, Schedule, at_once
from rocketeer.model.offsets import LogOffset


class ConfirmOutcome(Enum):
    """What became of a message that waited to be confirmed."""

    CONFIRMED = "every in-sync member has it"
    UNKNOWN = "this broker is no longer the leader: the message may be kept or not"


OnGroupConfirmed = Callable[[ConfirmOutcome], None]
NOTHING: Final = LogOffset(-1)


class InSyncCount:
    """Counts up to where every in-sync member has the log, and answers those who wait. Belongs to the loop thread."""

    def __init__(
        self,
        me: int,
        in_sync: Iterable[int],
        *,
        min_in_sync: int,
        confirmed: LogOffset,
        schedule: Schedule = at_once,
    ) -> None:
        """`schedule`: thousands may be confirmed together."""
        self._me = me
        self.in_sync = frozenset(in_sync)
        self._changing: frozenset[int] | None = None
        self.min_in_sync = min_in_sync
        self._ends: dict[int, LogOffset] = {}
        self._waiters: deque[tuple[LogOffset, OnGroupConfirmed]] = deque()
        self._answers = AnswersInOrder(self._answer_next, schedule)
        self.confirmed = confirmed
        """Log offset up to which the group has confirmed; it only grows."""
        self.on_advanced: list[Callable[[LogOffset], None]] = []
        self._closed = False
        assert me in self.in_sync

    @property
    def counting(self) -> frozenset[int]:
        """The members that must have a message: those of both sets during a change."""
        return self.in_sync if self._changing is None else self.in_sync | self._changing

    @property
    def smallest(self) -> int:
        """How many members the set has for sure, whichever is in force."""
        sets = (self.in_sync,) if self._changing is None else (self.in_sync, self._changing)
        return min(map(len, sets))

    @property
    def is_enough(self) -> bool:
        return self.smallest >= self.min_in_sync

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def end_of(self, member: int) -> LogOffset:
        """What a member has acknowledged in this epoch; -1 before its first word."""
        return self._ends.get(member, NOTHING)

    # --- the set -----------------------------------------------------------------------------

    def begin_change(self, members: Iterable[int]) -> None:
        """Count the members of this set as well: a transaction for it is about to be sent."""
        assert self._changing is None, "one change at a time"
        self._changing = frozenset(members)
        assert self._me in self._changing

    def settle_change(self, members: Iterable[int]) -> None:
        """End the change: the record says whether it was made."""
        self.in_sync = frozenset(members)
        self._changing = None
        self._count()

    # --- what members have -------------------------------------------------------------------

    def note_progress(self, member: int, end: LogOffset) -> None:
        """Record that a member (or we) has the log below `end` in this epoch."""
        # Our disk may tell of an earlier part of the log later. What another member has may become less: it was cut.
        self._ends[member] = max(end, self.end_of(member)) if member == self._me else end
        if member in self.counting:
            self._count()

    def forget_member(self, member: int) -> None:
        """Forget how far a member is, because its connection is lost."""
        self._ends.pop(member, None)

    def wait(self, end: LogOffset, done: OnGroupConfirmed) -> None:
        """Call back once: at once, later, or when this broker ceases to lead. `end`s come in rising order."""
        if self._closed:
            done(ConfirmOutcome.UNKNOWN)
        elif end <= self.confirmed and not self._answers.is_answering:
            done(ConfirmOutcome.CONFIRMED)
        else:
            self._waiters.append((end, done))

    def close(self) -> None:
        """Answer all waiters with UNKNOWN, or CONFIRMED where that is known: this broker no longer leads."""
        self._closed = True
        self._answers.finish()

    def _count(self) -> None:
        if self._closed or not self.is_enough:
            return
        ends = self._ends
        least = min([ends.get(member, NOTHING) for member in self.counting])
        if least <= self.confirmed:
            return
        self.confirmed = least
        self._answers.go_on()
        for told in self.on_advanced:
            told(least)

    def _answer_next(self) -> bool:
        waiters = self._waiters
        if not waiters or (waiters[0][0] > self.confirmed and not self._closed):
            return False
        end, done = waiters.popleft()
        done(ConfirmOutcome.CONFIRMED if end <= self.confirmed else ConfirmOutcome.UNKNOWN)
        return True
