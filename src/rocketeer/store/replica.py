"""The writer of a slave: copies the master's log bytes, and dispatches from them as a master does from messages."""

from rocketeer.errors import BadRecord, StoreError
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, entry_at
from rocketeer.record.layout import BLANK, BLANK_MAGIC, MAGIC
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.dispatch import Dispatch


class Replica:
    """Bytes come in pieces cut anywhere; the beginning of a record waits in `_part` for its rest."""

    def __init__(self, log: CommitLog, dispatch: Dispatch, levels: DelayLevels) -> None:
        self._log = log
        self._dispatch = dispatch
        self._levels = levels
        self._part = b""
        self._end = 0  # where the log ended after the last piece
        self._skip_to = 0  # inside a blank record: where the next segment starts
        self.last_store_ms = 0

    @property
    def part_bytes(self) -> int:
        """At the end of the log, of a record that is not whole yet."""
        return len(self._part) if self._end == self._log.max_offset else 0

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """Add bytes that follow the log; an empty log may start at any segment's base.

        StoreError when they do not follow, or are no records: nothing is written then.
        """
        log = self._log
        if not log.segments and offset % log.segment_bytes == 0:
            log.min_offset = log.max_offset = offset
        if offset != log.max_offset:
            raise StoreError(
                f"bytes for offset {offset} do not follow the log, which ends at {log.max_offset}"
            )
        if self._end != offset:  # the first piece, or others have appended since
            self._part = b""
        skipped = max(0, min(self._skip_to - offset, len(data)))
        whole = self._part + data[skipped:]
        try:
            entries, used, skip_to = self._split(whole, offset + skipped - len(self._part))
        except BadRecord as error:
            raise StoreError(f"bytes for offset {offset} are not the log's: {error}") from error
        log.put_raw(memoryview(data))
        self._end = log.max_offset
        self._part = whole[used:]
        self._skip_to = max(skip_to, self._skip_to)
        for entry in entries:
            self._dispatch.apply(entry)
            self.last_store_ms = entry.store_ms

    def _split(self, data: bytes, offset: int) -> tuple[list[DispatchEntry], int, int]:
        """The whole records in bytes from `offset` of the log, how many bytes they are, where a blank leads."""
        entries: list[DispatchEntry] = []
        at = 0
        skip_to = 0
        while len(data) - at >= BLANK.size:
            here = offset + at
            following = self._log.next_segment_offset(here)
            size, magic = BLANK.unpack_from(data, at)
            if magic == BLANK_MAGIC:
                if size != following - here:
                    raise BadRecord(at=here, reason=f"a blank of {size} bytes does not end its segment")
                skip_to = following
                at = min(at + size, len(data))
                continue
            if magic == MAGIC and 0 < size <= following - here and len(data) - at < size:
                break
            entry = entry_at(data, at, self._levels, check_crc=True)
            if not isinstance(entry, DispatchEntry) or entry.log_offset != here:
                raise BadRecord(at=here, reason=f"found {entry}")
            entries.append(entry)
            at += entry.size
        return entries, at, skip_to
