"""Consume queues against the log, from the log's side: every record of a chunk must have its entry, at its place.

Records come in the order of the log. The ones of a queue, as long as their offsets count up, are one span of that
queue: a topic that was deleted and made again counts from 0 again, and only its last span has a queue.
"""

import os
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rocketeer.audit.overview import StoreOverview
from rocketeer.audit.report import Findings
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.store.base_names import base_name, bases_in
from rocketeer.store.consume_queue_ext import ADDRESS_MAX, ADDRESS_MIN, UNIT
from rocketeer.store.dispatch import TX_UNSEEN
from rocketeer.store.queue_entry import BLANK_SIZE, ENTRY_BYTES, ENTRY_COLUMNS
from rocketeer.store.store_files import QueueFilesView

HOLE: Final = "queue offsets have a hole"
NO_ENTRY: Final = "record without its queue entry"
WRONG_ENTRY: Final = "queue entry says another place or size"
WRONG_TAG: Final = "queue entry has a wrong tag code"
FIRST: Final = QueueOffset(0)


@dataclass(slots=True)
class QueueSpan:
    """Records of one queue in one chunk, counting up from `first`; `next` is what must follow."""

    topic: str
    queue_id: int
    first: QueueOffset
    first_at: LogOffset
    next: QueueOffset = FIRST
    records: int = 0
    matched: int = 0
    lagging: int = 0
    deleted: int = 0
    wrong: Findings = field(default_factory=Findings)


Delays = Counter[tuple[int, int]]
"""(delay level, ms from storing to the time in the queue entry) -> how many."""


def queue_spans(
    overview: StoreOverview, base: LogOffset, rows: NDArray[Any], names: list[str], delays: Delays
) -> list[QueueSpan]:
    """The spans of all queues in these rows, compared with the queues' files. `delays` counts what levels mean."""
    seen = rows[(rows["sys_flag"] & TX_UNSEEN) == 0]
    if not len(seen):
        return []
    keys = (seen["topic"].astype(np.int64) << 32) | (seen["queue_id"].astype(np.int64) & 0xFFFFFFFF)
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    spans: list[QueueSpan] = []
    for places in np.split(order, cuts):
        mine = seen[places]
        topic, queue_id = names[int(mine["topic"][0])], int(mine["queue_id"][0])
        for span, part in _split_spans(topic, queue_id, base, mine):
            _compare(overview, span, base, part, delays)
            spans.append(span)
    return spans


def _split_spans(
    topic: str, queue_id: int, base: LogOffset, mine: NDArray[Any]
) -> list[tuple[QueueSpan, NDArray[Any]]]:
    offsets = mine["queue_offset"]
    name = f"{topic}/{queue_id}"
    span = QueueSpan(topic, queue_id, QueueOffset(int(offsets[0])), LogOffset(base + int(mine["at"][0])))
    found: list[tuple[QueueSpan, NDArray[Any]]] = []
    begin, expected = 0, int(offsets[0])
    # Where it does not count on; a record with a wrong number gives two such places, and is one finding.
    breaks = (np.flatnonzero(np.diff(offsets) != 1) + 1).tolist()
    resumed = -1
    counted = 0  # records before `counted` are in `expected`
    for at in breaks:
        if at == resumed:
            continue
        expected += at - counted
        counted = at
        value = int(offsets[at])
        if value == expected:
            continue
        if value == 0:
            span.next = QueueOffset(expected)
            found.append((span, mine[begin:at]))
            span = QueueSpan(topic, queue_id, FIRST, LogOffset(base + int(mine["at"][at])))
            begin, expected = at, 0
            continue
        span.wrong.add(HOLE, name, base + int(mine["at"][at]), f"queue offset {expected}", value)
        if at + 1 < len(offsets) and int(offsets[at + 1]) == expected + 1:
            resumed = at + 1  # only this one is wrong
        else:
            expected = value
    span.next = QueueOffset(expected + len(offsets) - counted)
    found.append((span, mine[begin:]))
    return found


def _compare(
    overview: StoreOverview, span: QueueSpan, base: LogOffset, mine: NDArray[Any], delays: Delays
) -> None:
    span.records = len(mine)
    folder = overview.path("consumequeue") / span.topic / str(span.queue_id)
    if _is_deleted(overview, span.topic, folder):
        span.deleted = len(mine)
        return
    offsets, places = mine["queue_offset"], mine["at"] + base
    entries = _entries(folder, offsets)
    there = entries["size"] > 0
    end = 0
    if not overview.exact and not there.all():
        # The queue may be growing. First its end, then the entries again: what belongs below that end is there now.
        end = QueueFilesView(Path(overview.store), span.topic, span.queue_id).bounds()[1]
        entries = _entries(folder, offsets)
        there = entries["size"] > 0
    if not there.all():
        _missing(overview, span, mine[~there], base, end)
        mine, places, offsets, entries = mine[there], places[there], offsets[there], entries[there]
    name = f"consumequeue/{span.topic}/{span.queue_id}"
    good = (entries["log_offset"] == places) & (entries["size"] == mine["size"])
    for at in _first(span.wrong, WRONG_ENTRY, ~good):
        expected = f"entry {offsets[at]} with log offset {places[at]}, size {mine['size'][at]}"
        found = f"{entries['log_offset'][at]}, {entries['size'][at]}"
        span.wrong.add(WRONG_ENTRY, name, int(offsets[at]), expected, found, 0)
    codes = entries["tag_code"].astype(np.int64)
    expected_codes = mine["tag_code"].copy()
    tags_good = codes == expected_codes
    if (codes <= ADDRESS_MAX).any():
        _follow_addresses(overview, span, mine, codes, tags_good)
    waiting = mine["level"] > 0
    if waiting.any():
        _check_delays(overview, mine, codes, tags_good, waiting, expected_codes, delays)
    tags_bad = good & ~tags_good
    for at in _first(span.wrong, WRONG_TAG, tags_bad):
        expected = f"entry {offsets[at]} with tag code {expected_codes[at]}"
        span.wrong.add(WRONG_TAG, name, int(offsets[at]), expected, int(codes[at]), 0)
    span.matched = int(np.count_nonzero(good))


def _first(findings: Findings, kind: str, bad: NDArray[np.bool_]) -> list[int]:
    """Count all findings of this kind; returns the first 20 places, to be described."""
    places = np.flatnonzero(bad)
    findings.more(kind, len(places))
    return [int(at) for at in places[:20]]


def _missing(
    overview: StoreOverview, span: QueueSpan, missing: NDArray[Any], base: LogOffset, end: int
) -> None:
    """Entries that are not there: lagging if the store's end may lack them, and they belong behind the queue's."""
    may_lag = np.zeros(len(missing), dtype=bool)
    if not overview.exact:
        tail = overview.queue_tail
        may_lag = (missing["at"] + base >= tail.offset) | (missing["store_ms"] >= tail.time_ms)
        may_lag &= missing["queue_offset"] >= end
    span.lagging = int(np.count_nonzero(may_lag))
    for at in _first(span.wrong, NO_ENTRY, ~may_lag):
        row = missing[at]
        expected = f"entry {row['queue_offset']} for the record at log offset {base + int(row['at'])}"
        name = f"consumequeue/{span.topic}/{span.queue_id}"
        span.wrong.add(NO_ENTRY, name, int(row["queue_offset"]), expected, "none", 0)


def _is_deleted(overview: StoreOverview, topic: str, folder: Path) -> bool:
    return overview.topics is not None and topic not in overview.topics and not folder.parent.is_dir()


def _entries(folder: Path, offsets: NDArray[np.int64]) -> NDArray[Any]:
    """The entries with these numbers; size 0 where there is none. Blanks, which stand for none, too."""
    found = np.zeros(len(offsets), dtype=ENTRY_COLUMNS)
    usable = (offsets >= 0) & (offsets < (1 << 58))
    if not usable.any():
        return found
    low, high = int(offsets[usable].min()), int(offsets[usable].max()) + 1
    if high - low > 4 * len(offsets) + 1_000_000:  # one with a wild number must not make us read everything
        middle = int(np.median(offsets[usable]))
        usable &= (offsets >= middle - 2 * len(offsets)) & (offsets <= middle + 2 * len(offsets))
        low, high = int(offsets[usable].min()), int(offsets[usable].max()) + 1
    all_of_them = raw_entries(folder, low, high)
    picked = all_of_them[offsets[usable] - low]
    picked["size"][(picked["size"] == BLANK_SIZE) & (picked["log_offset"] == 0)] = 0
    found[usable] = picked
    return found


def raw_entries(folder: Path, low: int, high: int) -> NDArray[Any]:
    """Entries [low, high) as the files have them, zeros where no file is."""
    found = np.zeros(high - low, dtype=ENTRY_COLUMNS)
    bases = bases_in(folder)
    at = low
    while at < high:
        place = bisect_right(bases, at * ENTRY_BYTES) - 1
        following = bases[place + 1] // ENTRY_BYTES if place + 1 < len(bases) else high
        stop = min(high, following)
        if place >= 0:
            with open(folder / base_name(bases[place]), "rb") as file:
                raw = os.pread(file.fileno(), (stop - at) * ENTRY_BYTES, at * ENTRY_BYTES - bases[place])
            whole = len(raw) // ENTRY_BYTES
            found[at - low : at - low + whole] = np.frombuffer(raw, dtype=ENTRY_COLUMNS, count=whole)
        at = max(stop, at + 1)
    return found


def _check_delays(
    overview: StoreOverview,
    mine: NDArray[Any],
    codes: NDArray[np.int64],
    tags_good: NDArray[np.bool_],
    waiting: NDArray[np.bool_],
    expected: NDArray[np.int64],
    delays: Delays,
) -> None:
    """In the schedule topic the code is the time a message is due: known delays decide, else they are counted."""
    levels, waits = mine["level"][waiting], codes[waiting] - mine["store_ms"][waiting]
    if overview.delays_ms is not None:
        table = np.array([0, *overview.delays_ms], dtype=np.int64)
        wanted = table[np.minimum(levels, len(overview.delays_ms))]
        expected[waiting] = mine["store_ms"][waiting] + wanted
        tags_good[waiting] = waits == wanted
        return
    tags_good[waiting] = True
    delays.update(zip(levels.tolist(), waits.tolist(), strict=True))


def _follow_addresses(
    overview: StoreOverview,
    span: QueueSpan,
    mine: NDArray[Any],
    codes: NDArray[np.int64],
    tags_good: NDArray[np.bool_],
) -> None:
    """Codes that are addresses in consumequeue_ext: the unit there has the tag code. `codes` gets it."""
    folder = overview.path("consumequeue_ext") / span.topic / str(span.queue_id)
    for at in np.flatnonzero(codes <= ADDRESS_MAX).tolist():
        unit = _unit_at(folder, int(codes[at]) - ADDRESS_MIN)
        if unit is not None and unit[1] == int(mine["store_ms"][at]):
            codes[at] = unit[0]
            tags_good[at] = unit[0] == int(mine["tag_code"][at])


def _unit_at(folder: Path, address: int) -> tuple[int, int] | None:
    """Tag code and store time of the unit."""
    bases = bases_in(folder)
    place = bisect_right(bases, address) - 1
    if place < 0:
        return None
    raw = _ext_file(str(folder / base_name(bases[place])))
    at = address - bases[place]
    if at + UNIT.size > len(raw):
        return None
    size, tag_code, store_ms, _ = UNIT.unpack_from(raw, at)
    return (tag_code, store_ms) if size >= UNIT.size else None


@lru_cache(maxsize=4)
def _ext_file(path: str) -> bytes:
    return Path(path).read_bytes()
