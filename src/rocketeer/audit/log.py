"""One task of an audit: the records that begin in a chunk of the log, each checked, and what is derived from them."""

import mmap
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rocketeer.audit.index import IndexCompared, IndexPlace, compare_index
from rocketeer.audit.overview import Chunk, StoreOverview
from rocketeer.audit.queues import Delays, QueueSpan, queue_spans
from rocketeer.audit.report import Findings
from rocketeer.model.offsets import LogOffset
from rocketeer.record.layout import RECORD_PLACE, body_crc, head_of
from rocketeer.record.walk import BAD_CRC, BAD_PLACE, Stop, Walk, blank_size, find_record, walk
from rocketeer.record.walk_plain import Topics
from rocketeer.store.dispatch import TX_UNSEEN

CRC: Final = "record's body does not have its checksum"
PLACE: Final = "record says it stands elsewhere"
DAMAGE: Final = "bytes that are no record"
FILLER: Final = "filler at a file's end has a wrong size"
_SETTLE_S: Final = 0.05
_TRIES: Final = 5


@dataclass(slots=True)
class ChunkResult:
    """`start`: where its first record begins (None: none does); `end`: where the next one must; both in the file.

    `stop` tells why it ended: RANGE is the usual, BLANK the end of the file, others a place where no record is.
    """

    chunk: Chunk
    start: int | None = None
    end: int = 0
    stop: Stop = Stop.RANGE
    reason: str = ""
    records: int = 0
    record_bytes: int = 0
    unseen: int = 0
    last_store_ms: int = 0
    spans: list[QueueSpan] = field(default_factory=list)
    index: IndexCompared = field(default_factory=IndexCompared)
    delays: Delays = field(default_factory=Counter)
    findings: Findings = field(default_factory=Findings)
    is_gone: bool = False
    """Its file was deleted before it could be read."""

    @property
    def covered(self) -> tuple[LogOffset, LogOffset]:
        """The part of the log this is about."""
        base, start = self.chunk.segment.base, self.start
        assert start is not None
        end = self.chunk.segment.size if self.stop == Stop.BLANK else self.end
        return LogOffset(base + start), LogOffset(base + end)


def check_chunk(overview: StoreOverview, chunk: Chunk, places: list[IndexPlace]) -> ChunkResult:
    """All there is to say about the records of a chunk."""
    result = ChunkResult(chunk)
    try:
        with overview.path(chunk.segment.name).open("rb") as file:
            size = file.seek(0, 2)
            if not size:
                result.start, result.stop = 0, Stop.UNWRITTEN
                return result
            buf = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        result.is_gone = True
        return result
    with buf:
        _read(overview, chunk, places, buf, result)
    return result


def _read(
    overview: StoreOverview, chunk: Chunk, places: list[IndexPlace], buf: mmap.mmap, result: ChunkResult
) -> None:
    base = chunk.segment.base
    start = chunk.begin if chunk.known else find_record(buf, chunk.begin, chunk.end, base)
    if start is None:
        return
    buf.madvise(mmap.MADV_SEQUENTIAL)
    result.start = at = start
    topics = Topics()
    walks: list[Walk] = []
    grows = not overview.exact and chunk.segment.is_last
    asked = -1
    while True:
        found = _walk_settled(overview, chunk, buf, at, topics)
        walks.append(found)
        result.end, result.stop, result.reason = found.end, found.stop, found.reason
        if found.stop == Stop.RANGE:
            break
        if found.stop == Stop.BLANK:
            filler, rest = blank_size(buf, found.end), chunk.segment.size - found.end
            if filler == rest or (chunk.segment.is_last and filler >= rest):
                break  # copies of the last file may be cut
            result.findings.add(
                FILLER, chunk.segment.name, base + found.end, f"{rest} bytes", f"{filler} bytes"
            )
        following = find_record(buf, found.end + 1, chunk.end, base)
        if following is None:
            break
        if grows and found.stop != Stop.BLANK and found.end != asked:
            at = asked = found.end  # was it only written since?
            continue
        if found.stop != Stop.BLANK:
            what = found.reason or "zeros"
            expected = f"a record, as there is one at {base + following}"
            result.findings.add(DAMAGE, chunk.segment.name, base + found.end, expected, what)
        at = following
    rows = np.concatenate([found.rows for found in walks])
    _count(result, rows)
    _own_faults(chunk, buf, rows, result.findings)
    in_place = rows["faults"] & BAD_PLACE == 0
    result.spans = queue_spans(overview, base, rows[in_place], topics.names, result.delays)
    if places:
        result.index = compare_index(overview, places, *result.covered, _keys(walks, base), result.findings)


def _walk_settled(overview: StoreOverview, chunk: Chunk, buf: mmap.mmap, at: int, topics: Topics) -> Walk:
    """Walk the chunk; at the end of a log being written, retry until a half-written record is complete."""
    found = walk(buf, at, chunk.end, chunk.segment.base, topics)
    tries = _TRIES if not overview.exact and chunk.segment.is_last else 0
    while tries and _may_settle(found):
        tries -= 1
        time.sleep(_SETTLE_S)
        found = walk(buf, at, chunk.end, chunk.segment.base, topics)
    return found


def _may_settle(found: Walk) -> bool:
    return found.stop == Stop.BAD or bool(len(found.rows) and found.rows["faults"][-1])


def _count(result: ChunkResult, rows: NDArray[Any]) -> None:
    result.records = len(rows)
    result.record_bytes = int(rows["size"].sum())
    result.unseen = int(np.count_nonzero(rows["sys_flag"] & TX_UNSEEN))
    result.last_store_ms = int(rows["store_ms"][-1]) if len(rows) else 0


def _own_faults(chunk: Chunk, buf: mmap.mmap, rows: NDArray[Any], findings: Findings) -> None:
    base, name = chunk.segment.base, chunk.segment.name
    for row in rows[rows["faults"] != 0]:
        at = int(row["at"])
        if row["faults"] & BAD_CRC:
            if findings.wants(CRC):
                head = head_of(buf, at)
                _, _, stored, *_, body_bytes = head.unpack_from(buf, at)
                found = body_crc(buf[at + head.size : at + head.size + body_bytes])
                findings.add(CRC, name, base + at, f"{stored:#010x}", f"{found:#010x}")
            else:
                findings.more(CRC, 1)
        if row["faults"] & BAD_PLACE:
            *_, said = RECORD_PLACE.unpack_from(buf, at)
            findings.add(PLACE, name, base + at, f"log offset {base + at}", said)


def _keys(
    walks: list[Walk], base: LogOffset
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Hash, log offset and store time of every key."""
    hashes = [found.keys["hash"].astype(np.int64) for found in walks]
    offsets = [found.rows["at"][found.keys["row"]] + base for found in walks]
    times = [found.rows["store_ms"][found.keys["row"]] for found in walks]
    return np.concatenate(hashes), np.concatenate(offsets), np.concatenate(times)
