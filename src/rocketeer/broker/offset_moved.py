"""Leaves a message in OFFSET_MOVED_EVENT whenever a consumer asked for an offset that does not exist (any more)."""

import msgspec

from rocketeer.broker.pull import PreparedPull
from rocketeer.broker.writer import Writer
from rocketeer.clock import Clock
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.property_names import DELAY, KEYS, TAGS
from rocketeer.model.topic import OFFSET_MOVED_EVENT
from rocketeer.record.layout import PendingMessage
from rocketeer.record.properties import encode_properties


class OffsetMovedEvents:
    """What `offset_moved` of the pull handler calls."""

    def __init__(self, *, writer: Writer, clock: Clock, broker_name: str, store_host: bytes) -> None:
        self._writer = writer
        self._clock = clock
        self._broker_name = broker_name
        self._store_host = store_host

    def record(self, pull: PreparedPull, led_to: QueueOffset) -> None:
        event = {
            "consumerGroup": pull.group,
            "messageQueue": {"brokerName": self._broker_name, "queueId": pull.queue_id, "topic": pull.topic},
            "offsetNew": led_to,
            "offsetRequest": pull.offset,
        }
        message = PendingMessage(
            topic=OFFSET_MOVED_EVENT,
            queue_id=0,
            flag=0,
            sys_flag=0,
            born_ms=self._clock.now_ms(),
            born_host=self._store_host,
            body=msgspec.json.encode(event),
            properties=encode_properties({KEYS: pull.group, DELAY: "0", TAGS: pull.group}),
        )
        self._writer.put(message, lambda put: None, wait=False)
