"""Dispatches log bytes entry by entry: what `log_bytes_runs.py` does in compiled runs."""

from collections import deque
from dataclasses import dataclass

from rocketeer.model.offsets import LogOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.entries import IncompleteTail, entries_in
from rocketeer.record.layout import Buffer
from rocketeer.store.dispatch import Dispatch


@dataclass(frozen=True, slots=True)
class LogPart:
    """Messages next to each other that are dispatched in one way."""

    first: LogOffset
    entries: list[DispatchEntry] | None = None
    run: tuple[int, int] = (0, 0)
    """Where the part begins and ends in the run that was read, if it has no entries."""


class LogBytesDispatcher:
    """Reads records from log bytes and dispatches them. Call `read`, `apply` for each part, `clear`."""

    def __init__(self, dispatch: Dispatch, levels: DelayLevels) -> None:
        self._dispatch = dispatch
        self._levels = levels

    def forget_queues(self) -> None:
        """Topics changed: every queue goes the general way once more."""

    def read(
        self, buf: Buffer, base: LogOffset, file_end: LogOffset
    ) -> tuple[deque[LogPart], IncompleteTail]:
        """The whole records of `buf`, which begins at the log offset `base`; BadRecord for bytes that are none."""
        entries, tail = entries_in(buf, base, file_end, self._levels)
        return deque([LogPart(entries[0].log_offset, entries)] if entries else []), tail

    def apply(self, part: LogPart) -> None:
        """Dispatch one part; what raises may be called again."""
        assert part.entries is not None
        self._dispatch.apply(part.entries)

    def take(self, buf: Buffer, start: int, base: LogOffset, count: int) -> tuple[int, int]:
        """Dispatch up to `count` plain messages from `start` on; where the next record begins, and how many."""
        return start, 0

    def note_dispatched(self, entry: DispatchEntry) -> None:
        """Note a message dispatched the general way: from now on its queue's messages may be handled in bulk."""

    def clear(self) -> None:
        """Drop what was read, after it was dispatched or when it was not stored."""
