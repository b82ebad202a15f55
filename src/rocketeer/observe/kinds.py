"""The kinds of figures that RocketMQ's tools ask for by name (315): what is counted, under which key."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from rocketeer.observe.counters import Counters, GroupGets, QueueGets
from rocketeer.observe.stored import StoredTopics
from rocketeer.record.properties import whole_number
from rocketeer.steps import Steps

V = TypeVar("V")

PULLS: Final = "pulls"
QUEUE_PULLS: Final = "pulls of a queue"
EVENTS: Final = (PULLS, QUEUE_PULLS)
"""Pulls that brought something: events of other kinds, nothing that is asked for."""
ASKED_MAX: Final = 1_000
"""Keys of figures that are kept from the first question on: there is one for each queue of each group."""


@dataclass(frozen=True, slots=True)
class FigureKind:
    """Counts since the start, by key: a topic, `topic@group`, or the cluster."""

    counts: Callable[[], Steps[Mapping[str, int]]]
    count: Callable[[str], Steps[int | None]]
    """The count of one key, in a single step but where it is read off queues; None for what was never counted."""
    events: str | None = None
    """The kind that counts the events of this one; None: each event adds 1."""
    from_first_question: bool = False
    """Only keys that somebody asks for are kept, from then on."""


def kinds(counters: Counters, stored: StoredTopics, cluster: str) -> dict[str, FigureKind]:
    return {
        "TOPIC_PUT_NUMS": FigureKind(stored.messages, lambda topic: _of_topic(stored, topic, 0)),
        "TOPIC_PUT_SIZE": FigureKind(
            stored.bytes, lambda topic: _of_topic(stored, topic, 1), "TOPIC_PUT_NUMS"
        ),
        "GROUP_GET_NUMS": _gets(counters, lambda gets: gets.messages, PULLS),
        "GROUP_GET_SIZE": _gets(counters, lambda gets: gets.bytes, PULLS),
        PULLS: _gets(counters, lambda gets: gets.pulls),
        "GROUP_GET_FROM_DISK_NUMS": _gets(counters, lambda gets: gets.disk_messages),
        "GROUP_GET_FROM_DISK_SIZE": _gets(counters, lambda gets: gets.disk_bytes, "GROUP_GET_FROM_DISK_NUMS"),
        "GROUP_GET_LATENCY": _queue_gets(counters, lambda queue: int(queue.ms), QUEUE_PULLS),
        QUEUE_PULLS: _queue_gets(counters, lambda queue: queue.pulls),
        "SNDBCK_PUT_NUMS": FigureKind(
            lambda: _by_pair(counters.sent_back, lambda count: count),
            _known(lambda key: counters.sent_back.get(_pair(key))),
        ),
        "BROKER_PUT_NUMS": _total(cluster, lambda: counters.puts),
        "BROKER_GET_NUMS": _total(cluster, lambda: counters.messages_out),
    }


def _of_topic(stored: StoredTopics, topic: str, place: int) -> Steps[int | None]:
    return (yield from stored.of(topic))[place] or None


def _known(count: Callable[[str], int | None]) -> Callable[[str], Steps[int | None]]:
    def steps(key: str) -> Steps[int | None]:
        yield from ()
        return count(key)

    return steps


def _by_pair(table: Mapping[tuple[str, str], V], value: Callable[[V], int]) -> Steps[dict[str, int]]:
    """The counts that are not 0, by `topic@group`."""
    counts: dict[str, int] = {}
    for pair in list(table):
        entry = table.get(pair)
        count = 0 if entry is None else value(entry)
        if count:
            counts[f"{pair[0]}@{pair[1]}"] = count
        yield
    return counts


def _gets(counters: Counters, value: Callable[[GroupGets], int], events: str | None = None) -> FigureKind:
    def count(key: str) -> int | None:
        gets = counters.gets.get(_pair(key))
        return None if gets is None else value(gets) or None

    return FigureKind(lambda: _by_pair(counters.gets, value), _known(count), events)


def _queue_gets(
    counters: Counters, figure: Callable[[QueueGets], int], events: str | None = None
) -> FigureKind:
    """A figure of pulls by `queue@topic@group`."""
    asked: dict[str, None] = {}

    def value(key: str) -> int | None:
        queue_id, _, pair = key.partition("@")
        gets = counters.gets.get(_pair(pair))
        number = whole_number(queue_id)
        queue = None if gets is None or number is None else gets.queues.get(number)
        return None if queue is None or not queue.pulls else figure(queue)

    def count(key: str) -> int | None:
        found = value(key)
        if found is not None and key not in asked:
            if len(asked) >= ASKED_MAX:
                del asked[next(iter(asked))]
            asked[key] = None
        return found

    def counts() -> Steps[dict[str, int]]:
        yield
        return {key: found for key in asked if (found := value(key)) is not None}

    return FigureKind(counts, _known(count), events, from_first_question=True)


def _total(cluster: str, value: Callable[[], int]) -> FigureKind:
    def counts() -> Steps[dict[str, int]]:
        yield
        return {cluster: value()}

    return FigureKind(counts, _known(lambda key: value() if key == cluster else None))


def _pair(key: str) -> tuple[str, str]:
    topic, _, group = key.partition("@")
    return topic, group
