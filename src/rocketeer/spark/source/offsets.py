"""Offsets of queues as JSON, for checkpoints and options: {"topic": {"broker": {"queue id": offset}}}, keys in order.

Spark compares offsets as text: the same offsets must always give the same text, or an idle query never rests.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rocketeer.errors import ConfigError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue

QueueOffsets: TypeAlias = dict[MessageQueue, QueueOffset]
OffsetsJson: TypeAlias = dict[str, dict[str, dict[str, int]]]

BEGAN: Final = "@began"
"""In the end of a query's first batch: where that batch began (no topic has such a name).

Spark writes down where batches end. Where the first one began it asks again after a restart, when the latest offset
is another one; so the end says it too.
"""
METRICS: Final = "@metrics"
"""In what a stream reports as the latest offsets: numbers for people (`spark/metrics.py`)."""
EARLIEST: Final = QueueOffset(-2)
LATEST: Final = QueueOffset(-1)


def to_json(places: Mapping[MessageQueue, int]) -> OffsetsJson:
    """Nested, each level in the order of its keys' text.

    >>> to_json({MessageQueue("Orders", "broker-a", 1): 7, MessageQueue("Orders", "broker-a", 0): 3})
    {'Orders': {'broker-a': {'0': 3, '1': 7}}}
    """
    found: OffsetsJson = {}
    for queue in sorted(places, key=lambda queue: (queue.topic, queue.broker_name, str(queue.queue_id))):
        brokers = found.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = places[queue]
    return found


def from_json(value: Mapping[str, Mapping[str, Mapping[str, int]]]) -> QueueOffsets:
    """The places of a checkpoint's JSON, which `to_json` made."""
    return {
        MessageQueue(topic, broker, int(queue_id)): QueueOffset(int(offset))
        for topic, brokers in value.items()
        if topic not in (BEGAN, METRICS)
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


def parse_by_queue(option: str, text: str, *, what: str, lowest: int) -> dict[MessageQueue, int]:
    """The numbers a person wrote, one for each queue; ConfigError says what is wrong and where."""
    shape = f'{{"topic": {{"broker-a": {{"0": {what}}}}}}}'
    numbers: dict[MessageQueue, int] = {}
    for topic, brokers in _object(option, _load(option, text, shape), "the whole", shape).items():
        for broker, queues in _object(option, brokers, f"topic {topic!r}", shape).items():
            for queue_id, number in _object(option, queues, f"broker {broker!r}", shape).items():
                queue = _queue(option, topic, broker, queue_id)
                if not isinstance(number, int) or isinstance(number, bool) or number < lowest:
                    raise ConfigError(
                        f"option {option!r}: {number!r} for queue {queue_id} of {topic!r} on {broker!r} is not {what}"
                    )
                numbers[queue] = number
    if not numbers:
        raise ConfigError(f"option {option!r} names no queue: write {shape}")
    return numbers


def parse_assign(option: str, text: str) -> frozenset[MessageQueue]:
    """The queues of {"topic": {"broker-a": [0, 1]}}."""
    shape = '{"topic": {"broker-a": [0, 1]}}'
    found: set[MessageQueue] = set()
    for topic, brokers in _object(option, _load(option, text, shape), "the whole", shape).items():
        for broker, queues in _object(option, brokers, f"topic {topic!r}", shape).items():
            if not isinstance(queues, list):
                raise ConfigError(f"option {option!r}: broker {broker!r} needs a list of queue ids: {shape}")
            found.update(_queue(option, topic, broker, queue_id) for queue_id in queues)
    if not found:
        raise ConfigError(f"option {option!r} names no queue: write {shape}")
    return frozenset(found)


def _load(option: str, text: str, shape: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"option {option!r} is not JSON ({error}): write {shape}") from None


def _object(option: str, value: Any, where: str, shape: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"option {option!r}: {where} is {value!r}, not a JSON object: write {shape}")
    return value


def _queue(option: str, topic: str, broker: str, queue_id: object) -> MessageQueue:
    text = str(queue_id)
    if isinstance(queue_id, bool) or not (text.isascii() and text.isdigit()):
        raise ConfigError(f"option {option!r}: queue id {queue_id!r} of {topic!r} on {broker!r} is no number")
    return MessageQueue(topic, broker, int(text))


def read_offsets(value: Any) -> dict[str, Any] | None:
    """What Spark tells of a source's offsets: JSON inside JSON, or as text of it; None for what is no object."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def lag_of(latest: Mapping[str, Any] | None, end: Mapping[str, Any] | None) -> int | None:
    """Messages behind, from two offsets {"topic": {"broker": {"queue": offset}}}; None when nothing is known.

    >>> lag_of({"Orders": {"broker-a": {"0": 9, "1": 4}}}, {"Orders": {"broker-a": {"0": 7}}})
    6
    """
    if not latest:
        return None
    done = end or {}
    return sum(
        max(int(high) - int(done.get(topic, {}).get(broker, {}).get(queue, 0)), 0)
        for topic, brokers in latest.items()
        if topic != METRICS
        for broker, queues in brokers.items()
        for queue, high in queues.items()
    )
