"""The record that ends a topic: everything before it in the log belongs to a topic that was deleted.

Deleting removes a topic's queues; its messages stay in the log. Whoever derives queues from the log again, after a
crash or on a slave, must not bring them back, nor mix them with those of a topic that was created anew under the same
name: its queues count from 0 again. So the end stands in the log itself, in its place.

It carries the flag of a message that was rolled back, which RocketMQ puts neither into a queue nor into its index,
and a prepared offset that no sender can set and no other record has.
"""

from typing import Final

from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.flags import TX_MASK, TX_ROLLBACK
from rocketeer.record.layout import PendingMessage

PREPARED_OFFSET: Final = -(1 << 62)
"""Below zero as those of records that end a timer, but of none: no log is as long."""


def topic_end(topic: str, *, now_ms: int, host: bytes) -> PendingMessage:
    return PendingMessage(topic, 0, 0, TX_ROLLBACK, now_ms, host, b"", b"", prepared_offset=PREPARED_OFFSET)


def ends_topic(entry: DispatchEntry) -> bool:
    return entry.prepared_offset == PREPARED_OFFSET and entry.sys_flag & TX_MASK == TX_ROLLBACK
