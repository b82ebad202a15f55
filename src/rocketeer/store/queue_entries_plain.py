"""Consume-queue entries in bulk, in plain Python: what `_queue_entries.pyx` does compiled."""

from abc import ABC, abstractmethod
from typing import Final

from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.layout import HEAD, MAGIC, QUEUE_ENTRY, RECORD_PLACE

_pack_entry: Final = QUEUE_ENTRY.pack
_unpack_entries: Final = QUEUE_ENTRY.iter_unpack
_record_place: Final = RECORD_PLACE.unpack_from


class QueueEnds:
    """The sum of the ends of the queues that count in it."""

    __slots__ = ("total",)

    total: int

    def __init__(self) -> None:
        self.total = 0


class QueueTail(ABC):
    """The end of a consume queue: what the hot path needs of it. `ConsumeQueue` builds on it."""

    __slots__ = ("_due", "_ends", "_tail", "max_offset")

    max_offset: QueueOffset
    _ends: QueueEnds
    """The ends of all queues: whoever changes the end of this one changes it there, too."""
    _due: int
    _tail: bytearray

    def put(self, queue_offset: QueueOffset, log_offset: LogOffset, size: int, tag_code: int) -> bool:
        """Add the next entry; False if the queue has that offset already (dispatch may repeat itself)."""
        if queue_offset != self.max_offset and not self._move_to(queue_offset):
            return False
        self._tail += _pack_entry(log_offset, size, tag_code)
        self.max_offset = QueueOffset(queue_offset + 1)
        self._ends.total += 1
        if queue_offset >= self._due:
            self._write_out_due()
        return True

    @abstractmethod
    def _move_to(self, offset: QueueOffset) -> bool:
        """Make `offset` the next; False when the queue is past it."""

    @abstractmethod
    def _write_out_due(self) -> None:
        """The tail has grown to what is written at once."""


def run_bounds(entries: bytes) -> tuple[LogOffset, LogOffset, int]:
    """Where in the log the first record of these entries begins, where the last ends, and the bytes of all."""
    found = list(_unpack_entries(entries))
    if not found:
        raise ValueError("no entries")
    return found[0][0], found[-1][0] + found[-1][1], sum(size for _, size, _ in found)


def gather_records(
    window: memoryview, entries: bytes, first: LogOffset, total: int, queue_offset: QueueOffset, queue_id: int
) -> bytes | None:
    """The records that entries point to, joined; None if `entries_hold` is false, or their bytes are not `total`."""
    if not entries_hold(window, entries, first, queue_offset, queue_id):
        return None
    parts = [window[at - first : at - first + size] for at, size, _ in _unpack_entries(entries)]
    records = b"".join(parts)
    return records if len(records) == total else None


def entries_hold(
    window: memoryview, entries: bytes, first: LogOffset, queue_offset: QueueOffset, queue_id: int
) -> bool:
    """Whether each entry leads to its record: of its size and queue, at its place, with offsets that count up.

    `window` begins at log offset `first`.
    """
    place: int = queue_offset
    for log_offset, size, _ in _unpack_entries(entries):
        at = log_offset - first
        if at < 0 or size < HEAD.size or at + size > len(window):
            return False
        if _record_place(window, at) != (size, MAGIC, queue_id, place, log_offset):
            return False
        place += 1
    return True
