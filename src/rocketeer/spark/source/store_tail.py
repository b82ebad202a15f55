"""The end of a log that its consume queues do not show yet: a running Rocketeer keeps their newest entries in memory.

Followed from a place that all queues are known to have passed; what the log says counts, as in recovery.
"""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rocketeer.errors import BadRecord
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.columns import Spans, find_parts, gather
from rocketeer.record.layout import BLANK, BLANK_MAGIC, body_crc
from rocketeer.record.vectorised import OffsetArray, fixed_fields, step_through
from rocketeer.store.dispatch import TX_UNSEEN
from rocketeer.store.queue_entry import ENTRY_COLUMNS
from rocketeer.store.store_files import LogFilesView

SETTLE_S: Final = 0.002
"""A record may be seen while its broker still copies it into the file: give it this time."""

TailKey = tuple[str, int]
TailEntry = tuple[QueueOffset, LogOffset, int]


class LogTail:
    """Entries of messages from a place in the log on, by topic and queue."""

    def __init__(self, log: LogFilesView, start: LogOffset, wanted: Callable[[str], bool]) -> None:
        self._log = log
        self._at = start
        self._wanted = wanted
        self.entries: dict[TailKey, list[TailEntry]] = {}
        """(queue offset, log offset, size) in the order of the log."""

    def follow(self) -> None:
        """Take in what was appended since."""
        while True:
            base = self._log.base_of(self._at)
            if base is None:
                return
            data = self._log.view(base)
            found, ended = _walk(data, self._at - base)
            if len(found):
                self._take(base, data, found)
            if not ended:
                return
            following = self._log.next_base(base)
            if following is None:
                self._log.refresh()
                following = self._log.next_base(base)
                if following is None:
                    return
            self._at = following

    def forget_below(self, key: TailKey, offset: QueueOffset) -> None:
        """The consume queue's file has these by now."""
        kept = [entry for entry in self.entries.get(key, ()) if entry[0] >= offset]
        if kept:
            self.entries[key] = kept
        else:
            self.entries.pop(key, None)

    def _take(self, base: int, data: NDArray[np.uint8], found: OffsetArray) -> None:
        time.sleep(SETTLE_S)
        rows = fixed_fields(data.data, found)
        try:
            parts = find_parts(data, rows, found)
        except BadRecord as error:  # half written: stop in front of it, it will be whole the next time
            found = found[found < error.at]
            rows = rows[: len(found)]
            if not len(found):
                return
            parts = find_parts(data, rows, found)
        if not _is_whole(data, rows[-1], int(parts.body.begin[-1]), int(parts.body.end[-1])):
            found, rows = found[:-1], rows[:-1]
        names = self._names(data, parts.topic)
        unseen = (rows["sys_flag"] & TX_UNSEEN) != 0
        queue_ids, queue_offsets, sizes = (
            rows[name].tolist() for name in ("queue_id", "queue_offset", "size")
        )
        for at, log_offset in enumerate((found + base).tolist()):
            topic = names[at]
            if topic is not None and not unseen[at]:
                entry = (queue_offsets[at], log_offset, sizes[at])
                self.entries.setdefault((topic, queue_ids[at]), []).append(entry)
        if len(found):
            self._at = LogOffset(base + int(found[-1]) + int(rows[-1]["size"]))

    def _names(self, data: NDArray[np.uint8], topics: Spans) -> list[str | None]:
        """The topic of each record; None for those nobody asks for."""
        ends, packed = gather(data, topics)
        texts: dict[bytes, str | None] = {}
        found: list[str | None] = []
        for begin, end in pairwise(np.frombuffer(ends, dtype=np.int32).tolist()):
            raw = packed[begin:end]
            if raw not in texts:
                text = raw.decode("utf-8", "replace")
                texts[raw] = text if self._wanted(text) else None
            found.append(texts[raw])
        return found


def as_entries(tail: list[TailEntry], begin: QueueOffset) -> NDArray[Any]:
    """The tail from queue offset `begin` on as consume-queue entries, as far as it has no hole (tag codes are 0)."""
    rows: list[tuple[int, int, int]] = []
    at = begin
    for queue_offset, log_offset, size in tail:
        if queue_offset == at:
            rows.append((log_offset, size, 0))
            at = QueueOffset(at + 1)
    return np.array(rows, dtype=ENTRY_COLUMNS)


def _walk(data: NDArray[np.uint8], start: int) -> tuple[OffsetArray, bool]:
    """Where records begin from `start` on, and whether a blank (the end of the file) follows them."""
    found, at = step_through(data.data, start, len(data))
    ended = len(data) - at >= BLANK.size and BLANK.unpack_from(data.data, at)[1] == BLANK_MAGIC
    return np.frombuffer(found, dtype=np.int64), ended


def _is_whole(data: NDArray[np.uint8], row: Any, begin: int, end: int) -> bool:
    """Whether the last record's body is all there."""
    return end == begin or body_crc(data[begin:end].data) == int(row["body_crc"])
