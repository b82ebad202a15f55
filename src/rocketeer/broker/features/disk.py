"""SYNC_FLUSH: a send is acknowledged when the disk has it, many at a time (group commit)."""

from collections.abc import Callable
from typing import Protocol

from rocketeer.broker.feature import Feature
from rocketeer.model.offsets import LogOffset
from rocketeer.protocol.codes import ResponseCode


class DurableLog(Protocol):
    """What waiting for the disk asks of the store."""

    def when_durable(self, log_offset: LogOffset, callback: Callable[[bool], None]) -> None:
        """Call back when the log below the offset is on disk, with False when that took too long."""
        ...


def disk_durability(store: DurableLog) -> Feature:
    def durable(end: LogOffset, done: Callable[[int], None]) -> None:
        def on_disk(in_time: bool) -> None:
            done(ResponseCode.SUCCESS if in_time else ResponseCode.FLUSH_DISK_TIMEOUT)

        store.when_durable(LogOffset(end), on_disk)

    return Feature("disk", durability=(durable,))
