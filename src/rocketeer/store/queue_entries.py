"""Consume-queue entries in bulk, compiled or plain: tails of queues, and the records that entries point to."""

from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.store.queue_entries_plain import QueueEnds, QueueTail, entries_hold, gather_records, run_bounds

__all__ = ["QueueEnds", "QueueTail", "entries_hold", "gather_records", "run_bounds"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.store._queue_entries import QueueEnds, QueueTail, entries_hold, gather_records, run_bounds
