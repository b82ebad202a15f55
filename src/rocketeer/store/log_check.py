"""The log at recovery, before anything is derived from it: is it whole, where does it end, what is damaged?

The walk begins at a known boundary. Where no record stands, it goes on at the next known one (`boundaries.py`): the
bytes between are copied to `corrupt/` and replaced by fillers, so that every later walk, ours or a Java broker's,
passes. What is lost is what stood there.

    ... record | damage | record, known ...      one message lost, the log goes on
    ... record | damage, and no place known      the rest of the file is set aside, the log goes on in the next file
    ... record | torn | zeros                    the end: nothing more was ever whole
    ... record | sectors of zeros | record       after a crash, beyond the checkpoint: the end, too. A power failure
                                                 took what was not synced yet, in any order; nothing behind the hole
                                                 was acknowledged as durable, and the log keeps a whole beginning
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rocketeer.errors import StoreError
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record import filler
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import BLANK, BLANK_MAGIC
from rocketeer.store.boundaries import Boundaries
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.log_scan import BulkRecordHandler, LogScan
from rocketeer.store.quarantine import QuarantinedBytes, quarantine

log = logging.getLogger(__name__)

Lost = tuple[tuple[str, int], QueueOffset]
"""Topic and queue id, queue offset."""


@dataclass
class LogCheck:
    """Walks over the log and mends it on the way."""

    log: CommitLog
    levels: DelayLevels
    boundaries: Boundaries
    corrupt_folder: Path
    clean: bool
    on_damage: Callable[[LogOffset], None] = lambda offset: None
    """Told of every damaged place before it is mended."""
    actions: list[str] = field(default_factory=list)
    copies: list[QuarantinedBytes] = field(default_factory=list)
    lost: dict[LogOffset, list[Lost]] = field(default_factory=dict)
    """By the log offset of the filler that stands there now."""
    lost_at_end: list[Lost] = field(default_factory=list)
    first_damage: LogOffset | None = None
    ends_in_hole: bool = False
    torn_bytes: int = 0
    scanned_bytes: int = 0
    last_store_ms: int = 0
    position: LogOffset = field(default=LogOffset(0))
    _mended_at: int = field(default=-1, init=False)

    def entries(
        self,
        start: LogOffset,
        *,
        check_crc: bool,
        sure_below: LogOffset,
        bulk: BulkRecordHandler | None = None,
    ) -> Iterator[DispatchEntry]:
        """Every record from the known boundary `start` to the end of the log, which is then `position`.

        After a crash, records at or beyond `sure_below` may lack sectors: a `bulk` leaves those that look so.
        """
        self.position = start
        while True:
            scan = LogScan(self.log, self.levels, self.position, check_crc=check_crc, bulk=bulk)
            began = self.position
            for entry in scan.entries():
                if not self.clean and entry.log_offset >= sure_below and scan.lacks_sectors(entry):
                    scan.problem = "sectors of a record never reached the disk"
                    self.position = entry.log_offset
                    if bulk is not None:
                        self.last_store_ms = max(self.last_store_ms, bulk.last_store_ms)
                    break
                self.position = entry.end
                self.last_store_ms = entry.store_ms
                yield entry
            else:
                self.position = scan.position
                self.last_store_ms = scan.last_store_ms or self.last_store_ms
            self.scanned_bytes += self.position - began
            if not self.clean and self.position >= sure_below and scan.stands_at_hole(self.position):
                self.ends_in_hole = True
                return
            following = self.boundaries.next_after(self.position)
            if following is None:
                return
            if self._mended_at == self.position:
                raise StoreError(
                    f"the disk does not give back the log at {self.position}, also after it was written anew: "
                    "copy the store to another disk and start there"
                )
            self._mended_at = self.position
            self._mend(following, scan.problem or "zeros")

    def find_end(self, start: LogOffset, *, check_crc: bool, sure_below: LogOffset) -> LogOffset:
        """Walk to the end of the log and cut off what is behind it; where it is."""
        for _ in self.entries(start, check_crc=check_crc, sure_below=sure_below):
            pass
        end = self.position
        follower = LogScan(self.log, self.levels, end).valid_record_after(end)
        if follower is not None and self.ends_in_hole:
            copies = quarantine(self.log, end, self.corrupt_folder)
            self.copies += copies
            size = sum(copy.size for copy in copies)
            self._did(
                f"a hole in the log at {end}: {size} bytes behind it set aside in {self.corrupt_folder}"
            )
        elif follower is not None:
            return self._give_up_file(end, follower)
        gone = self.log.cut_to(end)
        if gone and follower is None:
            self.torn_bytes = gone
            self._did(f"torn tail at {end}: {gone} bytes cut")
        return end

    def _mend(self, following: LogOffset, problem: str) -> None:
        """Fill the log from here to the next place where it is known to go on."""
        start = self.position
        self._damaged_at(start)
        copies = quarantine(self.log, start, self.corrupt_folder, end=following)
        self.copies += copies
        lost = self.boundaries.lost_between(start, following)
        segment = self.log.segment_of(start)
        assert segment is not None
        if following == segment.base + segment.size:
            segment.overwrite(start - segment.base, BLANK.pack(following - start, BLANK_MAGIC))
            self.lost[following] = lost
        else:
            self.lost[start] = lost
            for at, record in filler.fillers(start, following, self.last_store_ms):
                segment.overwrite(at - segment.base, record)
        self._did(
            f"the log is damaged at {start} ({problem}): {len(lost)} messages of queues lost, "
            f"{sum(copy.size for copy in copies)} bytes set aside in {self.corrupt_folder}, "
            f"the log goes on at {following}"
        )

    def _give_up_file(self, end: LogOffset, follower: LogOffset) -> LogOffset:
        """Go on in the next file: there is more in this one, but nobody knows where records begin.

        So no offset of the log is used twice, nor one of a queue.
        """
        self._damaged_at(end)
        self.copies += quarantine(self.log, end, self.corrupt_folder)
        self.lost_at_end = self.boundaries.lost_between(end, LogOffset(1 << 62))
        self.log.cut_to(end)
        following = self.log.next_segment_offset(end)
        segment = self.log.segment_of(end)
        if segment is not None and following - end >= BLANK.size:
            segment.overwrite(end - segment.base, BLANK.pack(following - end, BLANK_MAGIC))
            self.log.max_offset = self.position = following
        self._did(
            f"the log is damaged at {end} and may have whole records from {follower} on, but none at a place that is "
            f"known: {sum(copy.size for copy in self.copies)} bytes set aside in {self.corrupt_folder}, the log goes "
            f"on at {self.log.max_offset}"
        )
        return self.log.max_offset

    def _damaged_at(self, offset: LogOffset) -> None:
        self.on_damage(offset)
        self.first_damage = offset if self.first_damage is None else min(self.first_damage, offset)

    def _did(self, action: str) -> None:
        log.error("recovery: %s", action)
        self.actions.append(action)
