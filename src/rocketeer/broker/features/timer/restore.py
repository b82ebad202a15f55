"""At start: from the last snapshot and the log behind it to the timers that still wait."""

from array import array
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from rocketeer.broker.features.timer.block import NOWHERE, ROW, Timer, TimerRows
from rocketeer.broker.features.timer.snapshot import NOTHING, Snapshot
from rocketeer.model.offsets import LogOffset
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.timers import ended_by


def key_hash(message_id: str | None) -> int:
    """What is kept in memory of a message's id, for a recall to find it by."""
    return crc32((message_id or "").encode())


def timer_of(entry: DispatchEntry) -> Timer | None:
    """The timer a stored message is, if it is one."""
    if entry.topic == TIMER_TOPIC and entry.tag_code > 0:
        return Timer(entry.tag_code, entry.log_offset, key_hash(entry.uniq_key))
    return None


class TimerRestore:
    """Sees every message behind the snapshot once, in the log's order."""

    def __init__(self, snapshot: Snapshot, log_max: LogOffset) -> None:
        # A snapshot beyond the log belongs to bytes that are gone: it cannot be trusted.
        self.snapshot = snapshot if snapshot.log_offset <= log_max else NOTHING
        self._due = array("q")
        self._offsets = array("q")
        self._keys = array("I")
        self._ended = array("q")

    def on_message(self, entry: DispatchEntry) -> None:
        if entry.prepared_offset < 0:
            ended = ended_by(entry.prepared_offset)
            assert ended is not None
            self._ended.append(ended)
        timer = timer_of(entry)
        if timer is not None:
            self._due.append(timer.due_ms)
            self._offsets.append(timer.log_offset)
            self._keys.append(timer.key)

    @property
    def changes(self) -> int:
        """Timers that began or ended behind the snapshot."""
        return len(self._due) + len(self._ended)

    def waiting(self, log_min: LogOffset) -> TimerRows:
        """The timers that wait, each once, in the log's order; those below the log's beginning are no more."""
        # Sorting and searching leave other threads the interpreter, where `unique` and `isin` keep it for long.
        ended = np.sort(np.array(self._ended, np.int64))
        order = np.argsort(self.snapshot.rows["offset"], kind="stable")
        offsets = self.snapshot.rows["offset"][order]
        wrong = (offsets < log_min) | (offsets >= self.snapshot.log_offset) | _are_among(ended, offsets)
        wrong[1:] |= offsets[1:] == offsets[:-1]
        known = self.snapshot.rows.take(order[~wrong])
        seen = np.empty(len(self._due), ROW)
        seen["due"] = self._due
        seen["offset"] = self._offsets
        seen["key"] = self._keys
        return np.concatenate([known, seen.take(np.flatnonzero(~_are_among(ended, seen["offset"])))])


def _are_among(some: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each of `offsets` occurs in `some`, which is sorted."""
    found: NDArray[np.bool_] = np.append(some, NOWHERE)[np.searchsorted(some, offsets)] == offsets
    return found
