"""Records that stand where damaged ones stood: who walks over the log passes them, no queue and no index has them.

They carry the flag of a message that was rolled back, which RocketMQ puts neither into a queue nor into its index,
and a topic that no message can have.
"""

from collections.abc import Iterator
from typing import Final

from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.flags import TX_MASK, TX_ROLLBACK
from rocketeer.record.hosts import V4_BYTES
from rocketeer.record.layout import HEAD, TAIL_BYTES, PendingMessage, encode_pending

TOPIC: Final = "."
BYTES_MIN: Final = HEAD.size + TAIL_BYTES + len(TOPIC)
"""No record is smaller: every topic has a character."""
BYTES_MAX: Final = 4 << 20


def is_filler(entry: DispatchEntry) -> bool:
    return entry.topic == TOPIC and entry.sys_flag & TX_MASK == TX_ROLLBACK


def fillers(start: LogOffset, end: LogOffset, store_ms: int) -> Iterator[tuple[LogOffset, bytes]]:
    """(log offset, record) of the records that fill the log from `start` to `end`."""
    assert end - start >= BYTES_MIN
    host = bytes(V4_BYTES)
    while start < end:
        size = min(end - start, BYTES_MAX)
        if 0 < end - start - size < BYTES_MIN:
            size -= BYTES_MIN
        message = PendingMessage(TOPIC, 0, 0, TX_ROLLBACK, store_ms, host, bytes(size - BYTES_MIN), b"")
        record = encode_pending(
            message, queue_offset=QueueOffset(0), log_offset=start, store_ms=store_ms, store_host=host
        )
        assert len(record) == size
        yield start, record
        start = LogOffset(start + size)
