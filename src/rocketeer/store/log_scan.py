"""Walks the log's records at recovery, and finds out why a walk ended: at the end, at a torn tail, at damage.

... record | record | bad bytes ...... record | record      valid records follow: damage in the middle
... record | record | bad bytes ...... zeros                nothing valid follows: a torn tail
... record | record | zeros                                 the end of the log
"""

from collections.abc import Iterator

from rocketeer.errors import BadRecord
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entries import plain_entries
from rocketeer.record.entry import Blank, DispatchEntry, entry_at
from rocketeer.record.layout import HEAD
from rocketeer.store.commit_log import MAGIC_BYTES, CommitLog
from rocketeer.store.segment import Segment

_PIECE_BYTES = 1 << 20
_RUN = 512
RECORD_BYTES_MAX = 16 << 20  # a damaged size says anything; a frame has so many bytes at most
SECTOR_BYTES = 512  # what a disk writes whole, or not at all


class LogScan:
    """One walk from a record's start. `position` is behind the last whole record, `problem` says what is there."""

    def __init__(self, log: CommitLog, levels: DelayLevels, start: int, *, check_crc: bool = True) -> None:
        self._log = log
        self._levels = levels
        self._check_crc = check_crc
        self.start = start
        self.position = start
        self.last: DispatchEntry | None = None
        self.problem: str | None = None

    def entries(self, stop: int | None = None) -> Iterator[DispatchEntry]:
        """Every record up to the first place where there is none, or up to `stop`."""
        while stop is None or self.position < stop:
            segment = self._log.segment_of(self.position)
            if segment is None:
                return  # behind the last file
            base = segment.base
            at = self.position - base
            if segment.view is None:
                self._log.map_in(segment)
            view = segment.readable(at)
            levels, check_crc = self._levels, self._check_crc
            while True:
                # Plain records many at a time; what is rare, wrong or not there is looked at one by one below.
                plain, _ = plain_entries(view, at, base, _RUN)
                for each in plain:
                    at += each.size
                    self.position = base + at
                    self.last = each
                    yield each
                    if stop is not None and base + at >= stop:
                        return
                if plain:
                    continue
                try:
                    entry = entry_at(view, at, levels, check_crc=check_crc)
                except BadRecord as error:
                    self.problem = error.reason
                    return
                if isinstance(entry, Blank):
                    if entry.size != segment.size - at:
                        self.problem = f"a blank of {entry.size} bytes does not end its file"
                        return
                    self.position = base + segment.size
                    break
                if entry is None:
                    return
                if entry.log_offset != base + at:
                    self.problem = f"the record says it is at {entry.log_offset}"
                    return
                at += entry.size
                self.position = base + at
                self.last = entry
                yield entry
                if stop is not None and base + at >= stop:
                    return

    def valid_record_after(self, offset: int) -> int | None:
        """Where bytes beyond `offset` look like a whole record: there was more here. Never a place to read on at."""
        for segment in self._log.segments:
            if segment.base + segment.size <= offset:
                continue
            found = self._valid_in(segment, max(offset + 1 - segment.base, 0))
            if found is not None:
                return segment.base + found
        return None

    def _valid_in(self, segment: Segment, start: int) -> int | None:
        for low, high in segment.data_ranges(start):
            for piece in range(max(low, start), high, _PIECE_BYTES):
                raw = segment.copy(piece, min(piece + _PIECE_BYTES + 4, high))
                at = raw.find(MAGIC_BYTES)
                while at >= 0:
                    place = piece + at - 4
                    if place >= start and self._is_record(segment, place):
                        return place
                    at = raw.find(MAGIC_BYTES, at + 1)
        return None

    def _is_record(self, segment: Segment, at: int) -> bool:
        """Whole, and at the place it says it is: bytes that only look like a record say another."""
        size = int.from_bytes(segment.copy(at, at + 4), "big", signed=True)
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

    def stands_at_hole(self, offset: int) -> bool:
        """Whether sectors of what stands at `offset` never reached the disk: of the record's head, or of its rest."""
        segment = self._log.segment_of(offset)
        if segment is None:
            return False
        at = offset - segment.base
        view = segment.readable(at, _PIECE_BYTES)
        head = bytes(view[at : at + HEAD.size])
        size = int.from_bytes(head[:4], "big", signed=True)
        end = at + HEAD.size
        if head[4:8] == MAGIC_BYTES and HEAD.size < size <= segment.size - at:
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
