"""What only the chunks of a log together can tell: that they meet, files follow each other, queues count on.

Pure: results of tasks in, findings out.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from rocketeer.audit.log import DAMAGE, ChunkResult
from rocketeer.audit.overview import Chunk, StoreOverview
from rocketeer.audit.queues import HOLE, WRONG_TAG, Delays, QueueSpan
from rocketeer.audit.report import AuditReport
from rocketeer.model.offsets import LogOffset
from rocketeer.record.walk import Stop
from rocketeer.store.base_names import base_name

NO_FILE: Final = "file of the log is missing"
NO_FILLER: Final = "file of the log ends too early"
TORN: Final = "log ends in bytes that are no record"
_LATER_SPAN: Final = (HOLE,)
"""What counts of a queue's earlier spans: their entries are gone with the topic."""


def chunks_again(results: list[ChunkResult]) -> list[Chunk]:
    """Chunks that began in the wrong place: the one before says where the first record is, and it was read whole.

    The first of each file only: what it finds decides about the next.
    """
    again: list[Chunk] = []
    for _, mine in by_segment(results):
        expected: int | None = 0
        for result in mine:
            chunk = result.chunk
            if expected is None or expected >= chunk.end:
                if expected is not None and result.start is not None:
                    again.append(replace(chunk, begin=expected, end=max(chunk.end, expected), known=True))
                    break
                continue
            if result.start is None or result.start != expected:
                again.append(replace(chunk, begin=expected, known=True))
                break
            if result.stop != Stop.RANGE:
                expected = None  # a place without a record: the next chunk begins where it finds one
                continue
            expected = result.end
    return again


def grown_chunks(results: list[ChunkResult]) -> list[Chunk]:
    """Chunks of a living log that end before another begins, which may have been read later: to be read again."""
    again: list[Chunk] = []
    for _, mine in by_segment(results):
        for at, result in enumerate(mine):
            is_open = result.start is not None and result.stop in (Stop.UNWRITTEN, Stop.BAD)
            if is_open and any(later.start is not None for later in mine[at + 1 :]):
                again.append(replace(result.chunk, begin=result.start or 0, known=True))
    return again


def by_segment(results: Iterable[ChunkResult]) -> list[tuple[int, list[ChunkResult]]]:
    found: dict[int, list[ChunkResult]] = {}
    for result in sorted(results, key=lambda one: (one.chunk.segment.base, one.chunk.end)):
        if not result.is_gone:
            found.setdefault(result.chunk.segment.base, []).append(result)
    return sorted(found.items())


def check_files(overview: StoreOverview, results: list[ChunkResult], report: AuditReport) -> LogOffset:
    """Files follow each other and end as they must; where the log ends."""
    log_end = expected = overview.log_min
    for base, mine in by_segment(results):
        segment = mine[0].chunk.segment
        if base != expected and expected != overview.log_min:
            report.findings.add(
                NO_FILE, "commitlog", expected, f"a file {base_name(expected)}", base_name(base)
            )
        expected = LogOffset(base + segment.size)
        open_at: ChunkResult | None = None
        for result in mine:
            if result.start is None:
                continue
            if open_at is not None:
                found = open_at.reason or "zeros"
                wanted = f"a record, as there is one at {base + result.start}"
                report.findings.add(DAMAGE, segment.name, base + open_at.end, wanted, found)
            open_at = result if result.stop in (Stop.UNWRITTEN, Stop.BAD) else None
            log_end = LogOffset(base + result.end)
            if result.stop == Stop.BLANK:
                log_end = expected
                break
        if open_at is None:
            continue
        at_end = open_at.end >= segment.size
        if not segment.is_last and not at_end:
            found = open_at.reason or "zeros"
            report.findings.add(NO_FILLER, segment.name, base + open_at.end, "a record or a filler", found)
            log_end = expected
        elif open_at.stop == Stop.BAD:
            if overview.exact:
                report.findings.add(
                    TORN, segment.name, base + open_at.end, "a record or zeros", open_at.reason
                )
            else:
                report.notes.append(
                    f"the log's last record at {base + open_at.end} is not whole: {open_at.reason}"
                )
    return log_end


@dataclass(slots=True)
class QueueSum:
    """A queue over the whole log: its last span."""

    matched: int = 0
    lagging: int = 0
    deleted: int = 0
    next: int = 0
    spans: int = 0


def chain_spans(
    overview: StoreOverview, results: list[ChunkResult], report: AuditReport
) -> dict[tuple[str, int], QueueSum]:
    """Queues count on from chunk to chunk; only what the last span lacks is a fault."""
    rows: dict[tuple[str, int], list[QueueSpan]] = {}
    for _, mine in by_segment(results):
        for result in mine:
            for span in result.spans:
                rows.setdefault((span.topic, span.queue_id), []).append(span)
    return {key: _chain(overview, key, spans, report) for key, spans in rows.items()}


def _chain(
    overview: StoreOverview, key: tuple[str, int], spans: list[QueueSpan], report: AuditReport
) -> QueueSum:
    total = QueueSum()
    last_span: list[QueueSpan] = []
    for span in spans:
        is_first = not total.spans
        if is_first and overview.log_min == 0 and span.first != 0:
            _hole(report, key, span, 0)
        if not is_first and span.first != total.next:
            if span.first == 0:
                _forget(report, last_span)
                last_span = []
                total.matched = total.lagging = 0
                total.spans += 1
            else:
                _hole(report, key, span, total.next)
        total.spans = max(total.spans, 1)
        last_span.append(span)
        total.next = span.next
        total.matched += span.matched
        total.lagging += span.lagging
        total.deleted += span.deleted
    for span in last_span:
        report.findings.take(span.wrong)
    if total.spans > 1:
        report.notes.append(
            f"{key[0]}/{key[1]} counts from 0 again {total.spans - 1} times: its topic was deleted and made again"
        )
    return total


def _forget(report: AuditReport, spans: list[QueueSpan]) -> None:
    for span in spans:
        for kind in _LATER_SPAN:
            report.findings.more(kind, span.wrong.counts.get(kind, 0))
        report.findings.kept += [one for one in span.wrong.kept if one.kind in _LATER_SPAN]


def _hole(report: AuditReport, key: tuple[str, int], span: QueueSpan, expected: int) -> None:
    name = f"{key[0]}/{key[1]}"
    report.findings.add(HOLE, name, span.first_at, f"queue offset {expected}", span.first)


def check_delays(results: list[ChunkResult], defaults_ms: tuple[int, ...], report: AuditReport) -> None:
    """Without the broker's delay levels: a level means RocketMQ's default, or what most messages of it got."""
    found: Delays = Counter()
    for result in results:
        found.update(result.delays)
    for level in sorted({level for level, _ in found}):
        waits = {wait: count for (one, wait), count in found.items() if one == level}
        default = defaults_ms[min(level, len(defaults_ms)) - 1]
        right = default if default in waits else max(waits, key=lambda wait: waits[wait])
        for wait, count in sorted(waits.items()):
            if wait != right:
                expected = f"level {level} to be due {right} ms after storing"
                report.findings.add(
                    WRONG_TAG, "consumequeue/SCHEDULE_TOPIC_XXXX", level - 1, expected, wait, count
                )
