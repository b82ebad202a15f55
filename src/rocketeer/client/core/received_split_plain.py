"""Cuts the body of a pull reply into messages in plain Python: what `_received_split.pyx` does compiled."""

from collections.abc import Callable
from typing import Final, TypeVar

from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.record.hosts import V4_BYTES
from rocketeer.record.layout import HEAD, MAGIC, TAIL_BYTES, head_struct

Made = TypeVar("Made")

HEAD_START: Final = head_struct(V4_BYTES, V4_BYTES, ("size", "magic", "queue_offset"))
"""A record's head up to its queue offset."""


def split(
    body: bytes,
    make: Callable[[bytes, MessageQueue, QueueOffset, int, str | None, QueueOffset, QueueOffset], Made],
    queue: MessageQueue,
    namespace: str | None,
    min_offset: QueueOffset,
    max_offset: QueueOffset,
) -> tuple[list[Made], int]:
    """The messages at the front of `body`, made by `make`, and where they end: behind it is no record."""
    found: list[Made] = []
    unpack = HEAD_START.unpack_from
    end = len(body)
    at = 0
    while end - at >= HEAD_START.size:
        size, magic, offset = unpack(body, at)
        if magic != MAGIC or size < HEAD.size + TAIL_BYTES or size > end - at:
            break
        found.append(make(body[at : at + size], queue, offset, size, namespace, min_offset, max_offset))
        at += size
    return found, at
