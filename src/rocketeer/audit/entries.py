"""Consume queues against the log, from the queues' side: no entry points nowhere, none is where none may be.

Every record has its entry already (audit_queues). So if a queue has as many entries as records were matched, all of
them point to records; only where the numbers differ each entry's record is looked up.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rocketeer.audit.overview import StoreOverview
from rocketeer.audit.report import Findings
from rocketeer.errors import BadRecord
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.columns import find_parts
from rocketeer.record.layout import decode_record
from rocketeer.record.vectorised import fixed_fields
from rocketeer.store.base_names import base_name, bases_in
from rocketeer.store.dispatch import TX_UNSEEN
from rocketeer.store.queue_entry import BLANK_SIZE, ENTRY_BYTES, ENTRY_COLUMNS
from rocketeer.store.store_files import LogFilesView

NOWHERE: Final = "queue entry points to no record of its queue"
BLANK_INSIDE: Final = "blank among queue entries"
ODD_FILE: Final = "queue file out of place"


@dataclass(frozen=True, slots=True)
class QueueTask:
    topic: str
    queue_id: int
    matched: int
    """Records whose entry is right."""


@dataclass(slots=True)
class QueueResult:
    entries: int
    expired: int
    findings: Findings


def check_queue(
    overview: StoreOverview, task: QueueTask, log_min: LogOffset, log_end: LogOffset
) -> QueueResult:
    """All entries of a queue; `log_end` is how far the log was read."""
    folder = overview.path("consumequeue") / task.topic / str(task.queue_id)
    name = f"consumequeue/{task.topic}/{task.queue_id}"
    findings = Findings()
    alive = expired = 0
    begun = False
    parts: list[tuple[int, NDArray[Any]]] = []
    for base, entries in _files(folder, name, findings):
        first = base // ENTRY_BYTES
        written = entries["size"] > 0
        blank = written & (entries["size"] == BLANK_SIZE) & (entries["log_offset"] == 0)
        real = written & ~blank
        if not real.any():
            continue
        start = 0 if begun else int(np.flatnonzero(real)[0])
        begun = True
        inside = np.flatnonzero(blank[start:]) + start
        if len(inside):
            findings.add(BLANK_INSIDE, name, first + int(inside[0]), "an entry", "a blank", len(inside))
        old = real & (entries["log_offset"] < log_min)
        expired += int(np.count_nonzero(old))
        now = real & ~old
        if not overview.exact:  # written since, or before the log's last bytes reached the disk
            now &= entries["log_offset"] < log_end
        count = int(np.count_nonzero(now))
        alive += count
        if count:
            places = np.flatnonzero(now)
            parts.append((first, places))
    if alive != task.matched:
        _look_up(overview, task, folder, name, parts, findings)
    return QueueResult(alive, expired, findings)


def _files(folder: Path, name: str, findings: Findings) -> list[tuple[int, NDArray[Any]]]:
    found: list[tuple[int, NDArray[Any]]] = []
    expected: int | None = None
    for base in bases_in(folder):
        raw = (folder / base_name(base)).read_bytes()
        if base % ENTRY_BYTES or (expected is not None and base != expected):
            findings.add(
                ODD_FILE, f"{name}/{base_name(base)}", base, f"a file that begins at {expected}", base
            )
        expected = base + len(raw)
        found.append((base, np.frombuffer(raw, dtype=ENTRY_COLUMNS, count=len(raw) // ENTRY_BYTES)))
    return found


def _look_up(
    overview: StoreOverview,
    task: QueueTask,
    folder: Path,
    name: str,
    parts: list[tuple[int, NDArray[Any]]],
    findings: Findings,
) -> None:
    log = LogFilesView(Path(overview.store))
    topic = task.topic.encode()
    for first, places in parts:
        raw = (folder / base_name(first * ENTRY_BYTES)).read_bytes()
        entries = np.frombuffer(raw, dtype=ENTRY_COLUMNS, count=len(raw) // ENTRY_BYTES)
        suspects = places[~_are_there(log, entries[places], places + first, topic, task.queue_id)]
        for at in suspects.tolist():
            entry = entries[at]
            found = _record_words(
                log,
                LogOffset(int(entry["log_offset"])),
                int(entry["size"]),
                topic,
                task.queue_id,
                QueueOffset(first + at),
            )
            if found is not None:
                expected = (
                    f"a record of this queue with offset {first + at} at log offset {entry['log_offset']}"
                )
                findings.add(NOWHERE, name, first + at, expected, found)


def _are_there(
    log: LogFilesView, entries: NDArray[Any], numbers: NDArray[np.int64], topic: bytes, queue_id: int
) -> NDArray[np.bool_]:
    """Whether each entry's record is in the log, all at once; False also where only a closer look can tell."""
    there = np.zeros(len(entries), dtype=bool)
    offsets, sizes = entries["log_offset"].astype(np.int64), entries["size"].astype(np.int64)
    bases = np.array([log.base_of(LogOffset(int(offset))) or 0 for offset in offsets], dtype=np.int64)
    for base in np.unique(bases).tolist():
        mine = np.flatnonzero(bases == base)
        at = offsets[mine] - base
        whole = log.heads_match(base, at, sizes[mine])
        mine, at = mine[whole], at[whole]
        data = log.view(base)
        try:
            rows = fixed_fields(data.data, at)
            parts = find_parts(data, rows, at)
        except BadRecord:
            continue
        good = (rows["queue_id"] == queue_id) & (rows["queue_offset"] == numbers[mine])
        good &= (rows["sys_flag"] & TX_UNSEEN) == 0
        good &= parts.topic.end - parts.topic.begin == len(topic)
        for place, byte in enumerate(topic):
            good[good] &= data[parts.topic.begin[good] + place] == byte
        there[mine] = good
    return there


def _record_words(
    log: LogFilesView,
    log_offset: LogOffset,
    size: int,
    topic: bytes,
    queue_id: int,
    queue_offset: QueueOffset,
) -> str | None:
    """What is at `log_offset` instead of the entry's record, in words; None if the record is there."""
    base = log.base_of(log_offset)
    if base is None:
        return "no file of the log"
    data = log.view(base)
    at = log_offset - base
    try:
        message = decode_record(data[: at + max(size, 0)].data, at, check_crc=False)
    except BadRecord as error:
        return error.reason
    if (message.topic.encode(), message.queue_id, message.queue_offset) != (topic, queue_id, queue_offset):
        return f"{message.topic}/{message.queue_id} offset {message.queue_offset}"
    if message.sys_flag & TX_UNSEEN:
        return "a prepared or rolled-back message, which no queue has"
    return None if message.size == size else f"a record of {message.size} bytes"
