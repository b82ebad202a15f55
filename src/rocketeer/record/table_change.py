"""The record of a change to a broker's tables: in a group, offsets, topics, groups and locks travel in the log.

So they are copied, confirmed, cut and recovered as messages are, in one order with them. It carries the flag of a
message that was rolled back, which RocketMQ puts neither into a queue nor into its index, and a prepared offset that
no sender can set and no other record has.
"""

from typing import Final

from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.flags import TX_MASK, TX_ROLLBACK
from rocketeer.record.layout import PendingMessage

TOPIC: Final = "rocketeer_TABLE_CHANGES"
PREPARED_OFFSET: Final = -(1 << 62) - 1
"""Beside that of a record that ends a topic."""


def table_change(body: bytes, *, now_ms: int, host: bytes) -> PendingMessage:
    return PendingMessage(TOPIC, 0, 0, TX_ROLLBACK, now_ms, host, body, b"", prepared_offset=PREPARED_OFFSET)


def is_table_change(entry: DispatchEntry) -> bool:
    return entry.prepared_offset == PREPARED_OFFSET and entry.sys_flag & TX_MASK == TX_ROLLBACK
