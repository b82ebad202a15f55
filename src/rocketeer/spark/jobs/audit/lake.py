"""A lake against itself: every file a commit names is there, as it was written, and holds each message once."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from rocketeer.audit.report import AuditReport, Findings
from rocketeer.audit.store import Runner
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.delta import DeltaLake
from rocketeer.spark.jobs.lake.folder import Lake
from rocketeer.spark.jobs.lake.locations import LakeLocation
from rocketeer.spark.jobs.lake.state import DataFile, LakeState, QueuePart, Range
from rocketeer.spark.jobs.lake.writer import joined, parts_of, queue_parts, queue_runs
from rocketeer.spark.jobs.query.ranges import gaps
from rocketeer.spark.jobs.texts import counted

LOST_FILE: Final = "lake file is missing"
DAMAGED_FILE: Final = "lake file is not as it was written"
WRONG_ROWS: Final = "lake file does not hold what its commit says"
DOUBLED: Final = "messages are in the lake twice"
LOST: Final = "archived messages are missing in the lake"
UNKNOWN: Final = "messages in the lake that no commit speaks of"
_SHOWN: Final = 5


@dataclass(slots=True)
class FileResult:
    runs: list[tuple[MessageQueue, Range]] = field(default_factory=list)
    """The offsets of each queue that are in the file, as runs without a hole."""
    rows: int = 0
    bytes: int = 0
    is_strange: bool = False
    """The file says nothing of its queues."""
    findings: Findings = field(default_factory=Findings)


def audit_lake_files(run: Runner, lake: Lake, report: AuditReport) -> LakeState:
    """All files; what the log says comes back."""
    state = lake.state()
    files = sorted(state.files.values(), key=lambda file: file.path)
    place = lake.place
    results = run(files, lambda file: check_file(place, file))
    strangers = 0
    for result in results:
        report.findings.take(result.findings)
        report.count(lake_files=1, lake_rows=result.rows, lake_bytes=result.bytes)
        strangers += result.is_strange
    report.count(lake_commits=state.version)
    if strangers:
        report.notes.append(f"{strangers} files do not say what they hold of which queue: others wrote them")
    _check_runs(lake, state, [one for result in results for one in result.runs], report)
    _note_holes(state, report)
    _check_strays(lake, state, report)
    return state


def check_file(place: LakeLocation, file: DataFile) -> FileResult:
    """One file: its size, its pages' checksums, its rows, its queues."""
    result = FileResult()
    size = place.size(file.path)
    if size is None:
        result.findings.add(LOST_FILE, file.path, 0, f"{file.rows} rows in {file.bytes} bytes", "no file")
        return result
    if size != file.bytes:
        result.findings.add(DAMAGED_FILE, file.path, 0, f"{file.bytes} bytes", f"{size} bytes")
    result.bytes = size
    try:
        parts, said = _read_parts(place, file, result)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        reason = str(error).split("\n")[0]
        result.findings.add(DAMAGED_FILE, file.path, 0, "a Parquet file with the lake's columns", reason)
        return result
    if result.rows != file.rows:
        result.findings.add(WRONG_ROWS, file.path, 0, f"{file.rows} rows", f"{result.rows} rows")
    if said is None:
        result.is_strange = True
        return result
    expected = {(part.broker, part.queue): part for part in said}
    for where in sorted({*parts, *expected}):
        if parts.get(where) != expected.get(where):
            queue = f"{file.topic}/{where[1]} of {where[0]}"
            result.findings.add(
                WRONG_ROWS, file.path, where[1], f"{queue}: {expected.get(where)}", parts.get(where)
            )
    return result


def _read_parts(
    place: LakeLocation, file: DataFile, result: FileResult
) -> tuple[dict[tuple[str, int], QueuePart], list[QueuePart] | None]:
    """What is in a file, and what its footer says."""
    parts: dict[tuple[str, int], QueuePart] = {}
    # All columns: a page that nobody reads has its checksum in vain.
    with place.read(file.path) as source, pq.ParquetFile(source, page_checksum_verification=True) as opened:
        for batch in opened.iter_batches(batch_size=16_384):
            if not len(batch):
                continue
            result.rows += len(batch)
            for part in queue_parts(batch):
                where = (part.broker, part.queue)
                parts[where] = joined(parts[where], part) if where in parts else part
            result.runs += queue_runs(file.topic, batch)
        return parts, parts_of(opened.metadata)


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
                    DOUBLED, str(lake.place), one.begin, f"{name}: each once", f"{twice} again", twice
                )
            if union and one.begin <= union[-1].end:
                union[-1] = Range(union[-1].begin, max(union[-1].end, one.end))
            else:
                union.append(one)
        wanted = list(archived.get(queue, ()))
        for begin, end in _without(wanted, union):
            report.findings.add(
                LOST, str(lake.place), begin, f"{name}: {begin} to {end - 1}", "none", end - begin
            )
        for begin, end in _without(union, wanted):
            report.findings.add(
                UNKNOWN, str(lake.place), begin, f"{name}: none", f"{begin} to {end - 1}", end - begin
            )


def _without(some: list[Range], others: list[Range]) -> list[tuple[int, int]]:
    """The parts of `some` that are not in `others`; both in order."""
    return [(gap.begin, gap.end) for one in some for gap in gaps(others, one.begin, one.end)]


def _note_holes(state: LakeState, report: AuditReport) -> None:
    """What `archive --skip-lost` passed over is no fault of the lake, but nobody should take it for whole."""
    holes = [
        (queue, one.end, other.begin)
        for queue, ranges in state.archived().items()
        for one, other in pairwise(ranges)
    ]
    if holes:
        named = [
            f"{q.topic}/{q.queue_id} of {q.broker_name}: {begin} to {end - 1}" for q, begin, end in holes
        ]
        more = f" and {len(holes) - _SHOWN} holes more" if len(holes) > _SHOWN else ""
        lost = counted(sum(end - begin for _, begin, end in holes), "message")
        report.notes.append(f"{lost} not archived between others: {', '.join(named[:_SHOWN])}{more}")


def _check_strays(lake: Lake, state: LakeState, report: AuditReport) -> None:
    """Files that no commit names do not count: replaced ones, and what died before its commit."""
    if isinstance(lake.table, DeltaLake):
        strays = sum(name not in state.files for name in lake.place.data_files())
        if strays:
            report.notes.append(f"{strays} files that this version does not name, which a vacuum takes away")
