"""Walks the log's records at recovery, and finds out why a walk ended: at the end, at a torn tail, at damage.

... record | record | bad bytes ...... record | record      valid records follow: damage in the middle
... record | record | bad bytes ...... zeros                nothing valid follows: a torn tail
... record | record | zeros                                 the end of the log
"""

from collections.abc import Iterator
from typing import Protocol

from rocketeer.errors import BadRecord
from rocketeer.model.offsets import LogOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entries import plain_entries
from rocketeer.record.entry import Blank, DispatchEntry, entry_at
from rocketeer.record.layout import BLANK, HEAD, MAGIC, MAGIC_AT, MAGIC_BYTES, RECORD_BYTES_MAX, Buffer
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.segment import Segment

_PIECE_BYTES = 1 << 20
_RUN = 512
_WINDOW_BYTES = 64 << 20  # looked at in one go: behind the log's end there may be gigabytes of zeros
SECTOR_BYTES = 512  # what a disk writes whole, or not at all
NO_STOP = LogOffset(1 << 62)


class BulkRecordHandler(Protocol):
    """Handles runs of plain records in bulk during a scan, so that the scan need not yield them one by one."""

    @property
    def last_store_ms(self) -> int:
        """When the last record that was taken was stored."""
        ...

    def take(self, buf: Buffer, at: int, base: LogOffset, stop: LogOffset) -> int:
        """Take whole records from `at` on, none that begins at the log offset `stop`; where the next one begins.

        `base` is the log offset of the buffer's first byte.
        """
        ...


class LogScan:
    """One walk from a record's start. `position` is behind the last whole record, `problem` says what is there.

    With a `bulk` only the records that it leaves are shown.
    """

    def __init__(
        self,
        log: CommitLog,
        levels: DelayLevels,
        start: LogOffset,
        *,
        check_crc: bool = True,
        bulk: BulkRecordHandler | None = None,
    ) -> None:
        self._log = log
        self._bulk = bulk
        self._levels = levels
        self._check_crc = check_crc
        self.start = start
        self.position = start
        self.last_store_ms = 0
        self.problem: str | None = None

    def entries(self, stop: LogOffset | None = None) -> Iterator[DispatchEntry]:
        """Every record up to the first place where there is none, or up to `stop`."""
        end = NO_STOP if stop is None else stop
        while self.position < end:
            segment = self._log.segment_of(self.position)
            if segment is None:
                return  # behind the last file
            if segment.view is None:
                self._log.map_in(segment)
            at = self.position - segment.base
            view = segment.readable(at, _WINDOW_BYTES)
            is_part = len(view) == at + _WINDOW_BYTES  # of what can be read
            while self.position < end:
                if is_part and len(view) - (self.position - segment.base) < 2 * RECORD_BYTES_MAX:
                    break  # a record might not be whole in this window
                if self._bulk is not None and self._take(self._bulk, view, segment.base, end):
                    continue
                found = self._next(view, segment)
                if found is None:
                    break
                for entry in found:
                    self.position = LogOffset(self.position + entry.size)
                    self.last_store_ms = entry.store_ms
                    yield entry
                    if self.position >= end:
                        return
                if not found:
                    return

    def _take(self, bulk: BulkRecordHandler, view: memoryview, base: LogOffset, end: LogOffset) -> bool:
        """Let `bulk` handle the records at `position`; False if it handled none."""
        position = LogOffset(base + bulk.take(view, self.position - base, base, end))
        if position == self.position:
            return False
        self.position, self.last_store_ms = position, bulk.last_store_ms
        return True

    def _next(self, view: memoryview, segment: Segment) -> list[DispatchEntry] | None:
        """The records that follow, plain ones many at a time; none at a problem, None at the file's end."""
        at = self.position - segment.base
        plain, _ = plain_entries(view, at, segment.base, _RUN if self._bulk is None else 1)
        if plain:
            return plain
        try:
            entry = entry_at(view, at, self._levels, check_crc=self._check_crc)
        except BadRecord as error:
            self.problem = error.reason
            return []
        if isinstance(entry, Blank):
            if entry.size != segment.size - at:
                self.problem = f"a blank of {entry.size} bytes does not end its file"
                return []
            self.position = LogOffset(segment.base + segment.size)
            return None
        if entry is None:
            return []
        if entry.log_offset != self.position:
            self.problem = f"the record says it is at {entry.log_offset}"
            return []
        return [entry]

    def valid_record_after(self, offset: LogOffset) -> LogOffset | None:
        """Where bytes beyond `offset` look like a whole record: there was more here. Never a place to read on at."""
        for segment in self._log.segments:
            if segment.base + segment.size <= offset:
                continue
            found = self._valid_in(segment, max(offset + 1 - segment.base, 0))
            if found is not None:
                return LogOffset(segment.base + found)
        return None

    def _valid_in(self, segment: Segment, start: int) -> int | None:
        for low, high in segment.written_ranges(start):
            for piece in range(max(low, start), high, _PIECE_BYTES):
                raw = segment.copy(piece, min(piece + _PIECE_BYTES + len(MAGIC_BYTES), high))
                at = raw.find(MAGIC_BYTES)
                while at >= 0:
                    place = piece + at - MAGIC_AT
                    if place >= start and self._is_record(segment, place):
                        return place
                    at = raw.find(MAGIC_BYTES, at + 1)
        return None

    def _is_record(self, segment: Segment, at: int) -> bool:
        """Whether a whole record is at the place it names: bytes that only look like one name another."""
        size, _ = BLANK.unpack(segment.copy(at, at + BLANK.size))
        if not HEAD.size < size <= segment.size - at:
            return False
        try:
            entry = entry_at(segment.copy(at, at + size), 0, self._levels, check_crc=True)
        except BadRecord:
            return False
        return isinstance(entry, DispatchEntry) and entry.log_offset == segment.base + at

    def lacks_sectors(self, entry: DispatchEntry) -> bool:
        """Whether sectors of the record never reached the disk: they are zeros.

        Its body has a checksum, what stands behind it (topic, properties) has none. After a power failure zeros
        there may fill whole sectors. Such a message was never acknowledged as durable.
        """
        properties = entry.properties
        if b"\0" not in properties:
            return False
        end = entry.log_offset % self._log.segment_bytes + entry.size
        start = at = end - len(properties)
        while at < end:
            upto = min(end, at - at % SECTOR_BYTES + SECTOR_BYTES)
            if not any(properties[at - start : upto - start]):
                return True
            at = upto
        return False

    def stands_at_hole(self, offset: LogOffset) -> bool:
        """Whether sectors of what stands at `offset` never reached the disk: of the record's head, or of its rest."""
        segment = self._log.segment_of(offset)
        if segment is None:
            return False
        at = offset - segment.base
        view = segment.readable(at, _PIECE_BYTES)
        head = bytes(view[at : at + HEAD.size])
        size, magic = BLANK.unpack_from(head.ljust(BLANK.size, b"\0"))
        end = at + HEAD.size
        if magic == MAGIC and HEAD.size < size <= segment.size - at:
            written = segment.data_ranges(at)[0][1]
            if at + size > written and written < segment.size and size <= RECORD_BYTES_MAX:
                return True  # it runs into a hole of the file: pages that were never written
            end = min(at + size, len(view))
        while at < end:
            upto = min(end, at - at % SECTOR_BYTES + SECTOR_BYTES)
            if not any(view[at:upto]):  # also where the file has a hole: there is nothing then
                return True
            at = upto
        return False
