"""Which messages of a topic the lake has and which only the broker has: the halves of one table. Pure."""

from collections.abc import Mapping, Sequence

from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.state import Range


def gaps(archived: Sequence[Range], low: QueueOffset, high: QueueOffset) -> list[Range]:
    """What of [low, high) is not archived, in order. `archived` is in order, none touching the next.

    >>> gaps([Range(2, 5), Range(7, 8)], 0, 10)
    [Range(begin=0, end=2), Range(begin=5, end=7), Range(begin=8, end=10)]
    """
    found: list[Range] = []
    at = low
    for one in archived:
        if one.begin > at:
            found.append(Range(at, min(one.begin, high)))
        at = max(at, one.end)
        if at >= high:
            break
    if at < high:
        found.append(Range(at, high))
    return [one for one in found if one.begin < one.end]


def reads(wanted: Mapping[MessageQueue, Sequence[Range]]) -> list[dict[MessageQueue, Range]]:
    """The ranges in as few reads as can be: a read takes one range of a queue."""
    found: list[dict[MessageQueue, Range]] = []
    for queue in sorted(wanted):
        for number, one in enumerate(wanted[queue]):
            if number == len(found):
                found.append({})
            found[number][queue] = one
    return found


def newest(wanted: Mapping[MessageQueue, Sequence[Range]], count: int) -> dict[MessageQueue, list[Range]]:
    """About `count` messages, the last of each queue."""
    filled = {queue: ranges[-1] for queue, ranges in wanted.items() if ranges}
    each = -(-count // max(len(filled), 1))
    return {
        queue: [Range(max(one.begin, QueueOffset(one.end - each)), one.end)] for queue, one in filled.items()
    }
