"""Runs an audit of a store: tasks over files of the index, chunks of the log and queues, then the sum."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from rocketeer.audit.chain import (
    QueueSum,
    chain_spans,
    check_delays,
    check_files,
    chunks_again,
    grown_chunks,
)
from rocketeer.audit.entries import QueueTask, check_queue
from rocketeer.audit.index import (
    NOWHERE,
    IndexPlace,
    check_index_file,
    entries_between,
    index_paths,
)
from rocketeer.audit.log import ChunkResult, check_chunk
from rocketeer.audit.overview import CHUNK_BYTES, NEVER, Chunk, StoreOverview, inspect_store, segments_of
from rocketeer.audit.report import AuditReport
from rocketeer.model.offsets import LogOffset
from rocketeer.record.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from rocketeer.store.store_files import topic_queues

AHEAD: Final = "checkpoint is ahead of the log"
NO_CHECKPOINT: Final = "checkpoint is missing"
NO_INDEX: Final = "index files are missing"
_QUEUES_IN_TASK: Final = 200

T = TypeVar("T")
R = TypeVar("R")


def audit_store(
    run: "Runner",
    store: str | Path,
    *,
    exact: bool | None = None,
    delay_levels: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> AuditReport:
    """Audit a store. `exact` None: exact unless its broker runs, or died without closing it."""
    began_s = time.monotonic()
    delays_ms = None if delay_levels is None else DelayLevels.parse(delay_levels).delays_ms
    overview = inspect_store(Path(store).absolute(), exact=exact, delays_ms=delays_ms)
    report = AuditReport(f"store {overview.store}", overview.exact)

    places = _index_files(run, overview, report)
    results = run(overview.chunks(chunk_bytes), lambda chunk: check_chunk(overview, chunk, places))

    def read_again(chunks: Sequence[Chunk]) -> list[ChunkResult]:
        fresh = run(chunks, lambda chunk: check_chunk(overview, chunk, places))
        ends = {(one.chunk.segment.base, one.chunk.end) for one in fresh}
        return [one for one in results if (one.chunk.segment.base, one.chunk.end) not in ends] + fresh

    if not overview.exact and (grown := grown_chunks(results)):
        results = read_again(grown)
    while again := chunks_again(results):
        results = read_again(again)

    if not overview.exact:  # what retention deleted meanwhile is no fault
        log_min = LogOffset(
            min((one.base for one in segments_of(Path(overview.store) / "commitlog")), default=0)
        )
        results = [one for one in results if one.chunk.segment.base >= log_min]
    else:
        log_min = overview.log_min
    log_end = check_files(overview, results, report)
    queues = chain_spans(overview, results, report)
    for result in results:
        report.findings.take(result.findings)
        report.count(records=result.records, log_bytes=result.record_bytes, transactions_unseen=result.unseen)
    check_delays(results, DelayLevels.parse(DEFAULT_DELAY_LEVELS).delays_ms, report)
    _queues(run, overview, queues, log_min, log_end, report)
    _index(overview, places, results, log_min, log_end, report)
    _checkpoint(overview, results, log_end, report)
    report.seconds = time.monotonic() - began_s
    return report


class Runner(Protocol):
    """Does `work` for each task; the results in the tasks' order."""

    def __call__(self, tasks: Sequence[T], work: Callable[[T], R]) -> list[R]: ...


def in_this_process(tasks: Sequence[T], work: Callable[[T], R]) -> list[R]:
    """Do the tasks in this process, one after the other."""
    return [work(task) for task in tasks]


def _index_files(run: Runner, overview: StoreOverview, report: AuditReport) -> list[IndexPlace]:
    paths = index_paths(Path(overview.store))
    found = run(paths, lambda path: check_index_file(overview, path))
    report.count(index_files=len(paths))
    for result in found:
        report.findings.take(result.findings)
        report.count(index_entries=result.entries)
    if not paths and overview.segments:
        if overview.checkpoint.index_ms or overview.checkpoint.index_offset:
            report.findings.add(NO_INDEX, "index", 0, "files, as the checkpoint speaks of them", "none")
        else:
            report.notes.append("no index files: the index was not checked (messageIndexEnable=false?)")
    return [result.place for result in found if result.place is not None]


def _queues(
    run: Runner,
    overview: StoreOverview,
    queues: dict[tuple[str, int], QueueSum],
    log_min: LogOffset,
    log_end: LogOffset,
    report: AuditReport,
) -> None:
    there = {(topic, queue) for topic, ids in topic_queues(Path(overview.store)).items() for queue in ids}
    wanted = [QueueTask(*key, queues[key].matched if key in queues else 0) for key in sorted(there)]
    groups = [wanted[at : at + _QUEUES_IN_TASK] for at in range(0, len(wanted), _QUEUES_IN_TASK)]
    found = run(groups, lambda group: [check_queue(overview, task, log_min, log_end) for task in group])
    report.count(queues=len(wanted))
    for result in [one for group in found for one in group]:
        report.findings.take(result.findings)
        report.count(queue_entries=result.entries, queue_entries_expired=result.expired)
    deleted = sum(one.deleted for one in queues.values())
    if deleted:
        report.notes.append(f"{deleted:,} records are of topics that were deleted")
    lagging = sum(one.lagging for one in queues.values())
    if lagging:
        report.notes.append(f"{lagging:,} records at the end are not in their queues' files yet")


def _index(
    overview: StoreOverview,
    places: list[IndexPlace],
    results: list[ChunkResult],
    log_min: LogOffset,
    log_end: LogOffset,
    report: AuditReport,
) -> None:
    """What no chunk answers for: entries that point between records, or behind the log."""
    if not places:
        return
    report.count(keys=sum(one.index.keys for one in results))
    lagging = sum(one.index.lagging for one in results)
    if lagging:
        report.notes.append(f"{lagging:,} keys at the end are not in the index files yet")
    doubled = sum(one.index.doubled for one in results)
    if doubled:
        report.notes.append(f"{doubled:,} index entries are there twice, as a RocketMQ that died leaves them")
    covered = sorted(one.covered for one in results if one.start is not None)
    at = log_min
    for low, high in [*covered, (NEVER if overview.exact else max(log_end, at), NEVER)]:
        if low > at:
            hashes, offsets, _ = entries_between(places, at, low)
            for hashed, offset in list(zip(hashes.tolist(), offsets.tolist(), strict=True))[:20]:
                wanted = f"a message at {offset} with a key of hash {hashed}"
                report.findings.add(NOWHERE, "index", offset, wanted, "none", 0)
            report.findings.more(NOWHERE, len(hashes))
        at = max(at, high)


def _checkpoint(
    overview: StoreOverview, results: list[ChunkResult], log_end: LogOffset, report: AuditReport
) -> None:
    if not any(result.records for result in results):
        return
    if not overview.path("checkpoint").exists():
        report.findings.add(NO_CHECKPOINT, "checkpoint", 0, "a file", "none")
        return
    saved = overview.checkpoint
    newest_ms = max(result.last_store_ms for result in results)
    if not overview.exact:
        return  # it moves with the log, and was read before
    for at, (what, value) in enumerate(
        (("log", saved.physic_ms), ("queues", saved.logics_ms), ("index", saved.index_ms))
    ):
        if value > newest_ms:
            expected = f"{what} safe up to a time not after {newest_ms}"
            report.findings.add(AHEAD, "checkpoint", 8 * at, expected, value)
    for what, offset in (("queues", saved.dispatched_offset), ("index", saved.index_offset)):
        if offset is not None and offset > log_end:
            report.findings.add(AHEAD, "checkpoint", 64, f"{what} safe up to {log_end} at most", offset)
