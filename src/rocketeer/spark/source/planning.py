"""How much to read and in which pieces: offsets in, ranges out. Pure; the law of each function is its docstring."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.losses import Loss
from rocketeer.spark.source.offsets import QueueOffsets

SMALL_RECORDS: Final = 2_000
"""Ranges with fewer records share a task: starting a task costs more than reading them."""


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """Messages [begin, end) of one queue."""

    queue: MessageQueue
    begin: QueueOffset
    end: QueueOffset

    @property
    def records(self) -> int:
        return self.end - self.begin


# --- admission: from what is there to what the next batch takes -----------------------------------


def share(backlog: Mapping[MessageQueue, int], limit: int) -> dict[MessageQueue, int]:
    """Split `limit` over the queues in proportion to their backlog: never more in all than `limit`, never more of a
    queue than it has, all of `limit` used when there is enough, and no queue with a backlog left out if it allows.
    """
    waiting = {queue: count for queue, count in sorted(backlog.items()) if count > 0}
    total = sum(waiting.values())
    if total <= limit:
        return waiting
    if limit >= len(waiting):
        shares = {queue: max(count * limit // total, 1) for queue, count in waiting.items()}
    else:
        shares = {queue: count * limit // total for queue, count in waiting.items()}
    # What rounding left over goes to the largest remainders; what "at least one" took too much comes off the largest.
    spare = limit - sum(shares.values())
    by_remainder = sorted(waiting, key=lambda queue: (-(waiting[queue] * limit % total), queue))
    while spare > 0:
        for queue in by_remainder:
            if spare > 0 and shares[queue] < waiting[queue]:
                shares[queue] += 1
                spare -= 1
    while spare < 0:
        largest = max(shares, key=lambda queue: (shares[queue], queue))
        taken = min(-spare, shares[largest] - 1)
        shares[largest] -= taken
        spare += taken
    return {queue: count for queue, count in shares.items() if count}


def share_bytes(
    backlog: Mapping[MessageQueue, int], mean_bytes: Mapping[MessageQueue, float], limit_bytes: int
) -> dict[MessageQueue, int]:
    """How many messages of each queue make about `limit_bytes`, in proportion to the queues' bytes; at least one."""
    waiting = {queue: count for queue, count in sorted(backlog.items()) if count > 0}
    total = sum(count * max(mean_bytes.get(queue, 0.0), 1.0) for queue, count in waiting.items())
    if total <= limit_bytes or not waiting:
        return waiting
    shares = {queue: int(count * limit_bytes / total) for queue, count in waiting.items()}
    if not any(shares.values()):  # not even one fits: a stream must move on
        largest = max(waiting, key=lambda queue: (waiting[queue], queue))
        shares[largest] = 1
    return {queue: count for queue, count in shares.items() if count}


def must_wait(available: int, least: int | None, waited_ms: float | None, delay_ms_max: int) -> bool:
    """Whether a batch is too small to begin: fewer than `least`, and the last one is not too long ago.

    `waited_ms` is None before the first batch, which begins at once, as with Spark's Kafka source.
    """
    if least is None or available >= least:
        return False
    return waited_ms is not None and waited_ms < delay_ms_max


def advance(start: QueueOffsets, shares: Mapping[MessageQueue, int]) -> QueueOffsets:
    """The end of a batch: `start` moved on by each queue's share."""
    return {queue: QueueOffset(offset + shares.get(queue, 0)) for queue, offset in start.items()}


# --- what is missing ------------------------------------------------------------------------------


def clip(wanted: QueueRange, low: QueueOffset, high: QueueOffset) -> tuple[QueueRange | None, Loss | None]:
    """The part of a range that a queue with messages [low, high) has, and what is lost of it.

    An end below the begin means the queue began anew below: it is read from its first message to that end.
    """
    begin, end = wanted.begin, wanted.end
    if end < begin:
        why = f"offsets went back from {begin} to {end} (was the topic deleted and made again?)"
        loss = Loss(wanted.queue, begin, begin, why)  # nobody knows what followed before it began anew
        begin = min(low, end)
        return (QueueRange(wanted.queue, begin, end) if begin < end else None), loss
    if begin == end:
        return None, None
    if high < end:
        why = f"the queue ends at {high} (was the topic deleted and made again, or a disk lost?)"
        kept = QueueRange(wanted.queue, max(begin, low), high) if max(begin, low) < high else None
        return kept, Loss(wanted.queue, max(begin, high), end, why)
    if begin < low:
        loss = Loss(wanted.queue, begin, min(low, end), f"the oldest one still there is {low} (retention)")
        return (QueueRange(wanted.queue, low, end) if low < end else None), loss
    return wanted, None


# --- tasks ----------------------------------------------------------------------------------------


def split(
    ranges: Iterable[QueueRange], min_partitions: int | None, max_records: int | None
) -> list[QueueRange]:
    """The same messages in pieces: none above `max_records`, and as many as `min_partitions` asks for (there cannot
    be more than messages), larger ranges in more pieces. Order within a queue is kept."""
    whole = [piece for piece in ranges if piece.records > 0]
    if max_records is not None:
        whole = [
            QueueRange(piece.queue, QueueOffset(begin), QueueOffset(min(begin + max_records, piece.end)))
            for piece in whole
            for begin in range(piece.begin, piece.end, max_records)
        ]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    counts = _piece_counts([piece.records for piece in whole], min_partitions)
    return [part for piece, count in zip(whole, counts, strict=True) for part in _cut(piece, count)]


def _piece_counts(sizes: Sequence[int], wanted: int) -> list[int]:
    total = sum(sizes)
    wanted = min(wanted, total)
    counts = [min(max(size * wanted // total, 1), size) for size in sizes]
    while sum(counts) < wanted:  # to where the pieces are largest
        at = max(range(len(sizes)), key=lambda i: (sizes[i] / counts[i], -i))
        counts[at] += 1
    return counts


def _cut(piece: QueueRange, count: int) -> list[QueueRange]:
    marks = [QueueOffset(piece.begin + piece.records * i // count) for i in range(count + 1)]
    return [QueueRange(piece.queue, begin, end) for begin, end in pairwise(marks)]


def group_small(
    ranges: Sequence[QueueRange], min_partitions: int | None, small: int = SMALL_RECORDS
) -> list[list[QueueRange]]:
    """Ranges put together into tasks: neighbours of one broker share a task while it stays under `small` records."""
    if min_partitions is not None:
        return [[piece] for piece in ranges]
    tasks: list[list[QueueRange]] = []
    records = 0
    for piece in sorted(ranges, key=lambda piece: (piece.queue.broker_name, piece.queue, piece.begin)):
        same = tasks and tasks[-1][-1].queue.broker_name == piece.queue.broker_name
        if same and records + piece.records <= small:
            tasks[-1].append(piece)
            records += piece.records
        else:
            tasks.append([piece])
            records = piece.records
    return tasks
