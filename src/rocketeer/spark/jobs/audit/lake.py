"""A lake against itself: every file a commit names is there, as it was written, and holds each message once."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from rocketeer.audit.report import AuditReport, Findings
from rocketeer.audit.store import Runner
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.folder import META, Lake, topic_of
from rocketeer.spark.jobs.lake.state import DataFile, LakeState, QueuePart, Range
from rocketeer.spark.jobs.lake.writer import joined, queue_parts

LOST_FILE: Final = "lake file is missing"
DAMAGED_FILE: Final = "lake file is not as it was written"
WRONG_ROWS: Final = "lake file does not hold what its commit says"
DOUBLED_FILE: Final = "lake file is there twice"
DOUBLED: Final = "messages are in the lake twice"
LOST: Final = "archived messages are missing in the lake"
UNKNOWN: Final = "messages in the lake that no commit speaks of"

_READ_BYTES: Final = 8 << 20


@dataclass(slots=True)
class FileResult:
    runs: list[tuple[MessageQueue, Range]] = field(default_factory=list)
    """The offsets of each queue that are in the file, as runs without a hole."""
    rows: int = 0
    bytes: int = 0
    findings: Findings = field(default_factory=Findings)


def audit_lake_files(run: Runner, lake: Lake, report: AuditReport) -> LakeState:
    """All files; what the commits say comes back."""
    state = lake.state()
    files = sorted(state.files.values(), key=lambda file: file.path)
    root = str(lake.path)
    results = run(files, lambda file: check_file(root, file))
    for result in results:
        report.findings.take(result.findings)
        report.count(lake_files=1, lake_rows=result.rows, lake_bytes=result.bytes)
    report.count(lake_commits=state.next_number)
    _check_runs(lake, state, [one for result in results for one in result.runs], report)
    _check_strays(lake, state, report)
    return state


def check_file(root: str, file: DataFile) -> FileResult:
    """One file: its bytes, its rows, its queues."""
    result = FileResult()
    path = Path(root) / file.path
    if not path.exists():
        result.findings.add(LOST_FILE, file.path, 0, f"{file.rows} rows in {file.bytes} bytes", "no file")
        return result
    size, checksum = _checksum(path)
    if (size, checksum) != (file.bytes, file.crc32):
        wanted = f"{file.bytes} bytes with crc {file.crc32:#010x}"
        result.findings.add(DAMAGED_FILE, file.path, 0, wanted, f"{size} bytes with crc {checksum:#010x}")
    result.bytes = size
    try:
        parts = _read_parts(path, topic_of(file.path), result)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        reason = str(error).split("\n")[0]
        result.findings.add(DAMAGED_FILE, file.path, 0, "a Parquet file with the lake's columns", reason)
        return result
    said = {(part.broker, part.queue): part for part in file.queues}
    for place in sorted({*parts, *said}):
        if parts.get(place) != said.get(place):
            queue = f"{topic_of(file.path)}/{place[1]} of {place[0]}"
            result.findings.add(
                WRONG_ROWS, file.path, place[1], f"{queue}: {said.get(place)}", parts.get(place)
            )
    return result


def _checksum(path: Path) -> tuple[int, int]:
    size = checksum = 0
    with path.open("rb") as opened:
        while piece := opened.read(_READ_BYTES):
            checksum = crc32(piece, checksum)
            size += len(piece)
    return size, checksum


def _read_parts(path: Path, topic: str, result: FileResult) -> dict[tuple[str, int], QueuePart]:
    parts: dict[tuple[str, int], QueuePart] = {}
    columns = ["brokerName", "queueId", "queueOffset", "body"]
    with pq.ParquetFile(path) as opened:
        for batch in opened.iter_batches(batch_size=16_384, columns=columns):
            if not len(batch):
                continue
            result.rows += len(batch)
            for part in queue_parts(batch):
                place = (part.broker, part.queue)
                parts[place] = joined(parts[place], part) if place in parts else part
            result.runs += list(_runs(topic, batch))
    return parts


def _runs(topic: str, batch: Any) -> Iterable[tuple[MessageQueue, Range]]:
    offsets = batch.column("queueOffset").to_numpy(zero_copy_only=False)
    queues = batch.column("queueId").to_numpy(zero_copy_only=False)
    names = batch.column("brokerName").to_pylist() if len(batch) else []
    brokers = np.array(names, dtype=object)
    for broker in sorted(set(names)):
        for queue_id in np.unique(queues[brokers == broker]).tolist():
            mine = np.sort(offsets[(brokers == broker) & (queues == queue_id)])
            cuts = np.flatnonzero(np.diff(mine) != 1) + 1
            for run in np.split(mine, cuts):
                yield MessageQueue(topic, broker, queue_id), Range(int(run[0]), int(run[-1]) + 1)


def _check_runs(
    lake: Lake, state: LakeState, runs: list[tuple[MessageQueue, Range]], report: AuditReport
) -> None:
    """The files' offsets, put together, are the commits' ranges: none twice, none missing, none besides."""
    by_queue: dict[MessageQueue, list[Range]] = {}
    for queue, run in runs:
        by_queue.setdefault(queue, []).append(run)
    archived = state.archived()
    for queue in sorted({*by_queue, *archived}):
        name = f"{queue.topic}/{queue.queue_id} of {queue.broker_name}"
        union: list[Range] = []
        for one in sorted(by_queue.get(queue, [])):
            if union and one.begin < union[-1].end:
                twice = min(one.end, union[-1].end) - one.begin
                report.findings.add(
                    DOUBLED, str(lake.path), one.begin, f"{name}: each once", f"{twice} again", twice
                )
            if union and one.begin <= union[-1].end:
                union[-1] = Range(union[-1].begin, max(union[-1].end, one.end))
            else:
                union.append(one)
        wanted = list(archived.get(queue, ()))
        for begin, end in _without(wanted, union):
            report.findings.add(
                LOST, str(lake.path), begin, f"{name}: {begin} to {end - 1}", "none", end - begin
            )
        for begin, end in _without(union, wanted):
            report.findings.add(
                UNKNOWN, str(lake.path), begin, f"{name}: none", f"{begin} to {end - 1}", end - begin
            )


def _without(some: list[Range], others: list[Range]) -> Iterable[tuple[int, int]]:
    """The parts of `some` that are not in `others`; both in order."""
    for one in some:
        at = one.begin
        for other in others:
            if other.end <= at or other.begin >= one.end:
                continue
            if other.begin > at:
                yield at, other.begin
            at = max(at, other.end)
        if at < one.end:
            yield at, one.end


def _check_strays(lake: Lake, state: LakeState, report: AuditReport) -> None:
    """Files that no commit names do not count, unless they are copies of files that do: somebody's accident."""
    known = {(file.bytes, file.crc32): file.path for file in state.files.values()}
    sizes = {size for size, _ in known}
    strays = 0
    for folder, folders, names in os.walk(lake.path):
        folders[:] = [name for name in folders if name != META]
        for name in names:
            path = Path(folder) / name
            inside = path.relative_to(lake.path).as_posix()
            if inside in state.files or inside in state.removed or not name.endswith(".parquet"):
                continue
            strays += 1
            if path.stat().st_size in sizes and (original := known.get(_checksum(path))) is not None:
                report.findings.add(DOUBLED_FILE, inside, 0, "no such file", f"a copy of {original}")
    if strays:
        report.notes.append(f"{strays} files that no commit names, which the next archive run sweeps")
