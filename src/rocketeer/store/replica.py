"""The writer of a slave: copies the master's log bytes, and dispatches from them as a master does from messages."""

from collections import deque

from rocketeer.errors import BadRecord, StoreError
from rocketeer.model.offsets import LogOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.layout import BLANK
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.dispatch import Dispatch
from rocketeer.store.log_bytes_dispatcher import LogBytesDispatcher, LogPart


class ReplicaWriter:
    """Writes copied log bytes, cut anywhere; the beginning of a record waits in `_part` for its rest."""

    def __init__(self, log: CommitLog, dispatch: Dispatch, levels: DelayLevels) -> None:
        self._log = log
        self._log_bytes = LogBytesDispatcher(dispatch, levels)
        self._part = bytearray()
        self._wanted_bytes = BLANK.size
        """When the part has so many, there is something to look at."""
        self._end = 0  # where the log ended after the last piece
        self._skip_to = 0  # inside a blank record: where the next segment starts
        self._found: deque[LogPart] = deque()
        """Copied and not dispatched yet: empty but when dispatching has failed."""
        self.forget_queues = self._log_bytes.forget_queues

    @property
    def part_bytes(self) -> int:
        """Bytes at the end of the log that are not dispatched, because their record is incomplete."""
        if self._end != self._log.max_offset:
            return 0
        return self._end - self._found[0].first if self._found else len(self._part)

    def append_raw(self, offset: LogOffset, data: bytes | memoryview) -> None:
        """Add bytes that follow the log, within one segment; an empty log may start at any segment's base.

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
            self._part.clear()
            self._wanted_bytes = BLANK.size
        self._dispatch_found()
        for at in range(0, len(data), log.segment_bytes):
            self._append(data[at : at + log.segment_bytes])

    def _append(self, data: bytes | memoryview) -> None:
        log, at = self._log, self._log.max_offset
        in_file = log.next_segment_offset(at) - at
        if len(data) > in_file:
            self._append(data[:in_file])
            self._append(data[in_file:])
            return
        skipped = max(0, min(self._skip_to - at, len(data)))
        new = memoryview(data)[skipped:]
        if len(self._part) + len(new) < self._wanted_bytes:
            log.put_raw(memoryview(data))
            self._part += new
        else:
            self._copy(memoryview(data), new, LogOffset(at + skipped))
        self._end = log.max_offset

    def _copy(self, data: memoryview, new: memoryview, at: LogOffset) -> None:
        """Store `data`; what is to be looked at of it is `new`, from the log offset `at` on."""
        base = LogOffset(at - len(self._part))
        whole = b"".join((self._part, new)) if self._part else new
        try:
            found, rest = self._log_bytes.read(whole, base, self._log.next_segment_offset(base))
            self._log.put_raw(data)
        except BadRecord as error:
            self._log_bytes.clear()
            raise StoreError(f"bytes for offset {at} are not the log's: {error}") from error
        except BaseException:
            self._log_bytes.clear()
            raise
        if rest.blank_bytes:
            self._skip_to = base + rest.end + rest.blank_bytes
            self._part.clear()
            self._wanted_bytes = BLANK.size
        else:
            self._part = bytearray(whole[rest.end :])
            self._wanted_bytes = rest.wanted_bytes
        self._found = found
        self._end = self._log.max_offset
        self._dispatch_found()

    def _dispatch_found(self) -> None:
        """Dispatch the records found; one that fails is kept and tried again with the next bytes."""
        while self._found:
            self._log_bytes.apply(self._found[0])
            self._found.popleft()
        self._log_bytes.clear()
