"""At recovery, between the log and the queues: does a record's queue offset fit the queue?

A queue counts its messages without a gap. Only damaged messages leave one, and only a damaged header makes a queue
offset jump: it has no checksum. So a record that jumps waits for the next of its queue to say who is right.

    queue ends at 7, record says 9, the next says 10     two agree: 7 and 8 are lost, their places stay blank
    queue ends at 7, record says 519, the next says 8    519 was damage: its record is lost, place 7 stays blank

A lost record is not deleted: it stays in the log, and the index finds it by its keys.
"""

import logging

from rocketeer.record.entry import DispatchEntry
from rocketeer.store.consume_queue import ConsumeQueue

log = logging.getLogger(__name__)


class QueueGaps:
    """Checks records' queue offsets against their queues: `put` every record of a log walk, then `finish`."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], tuple[ConsumeQueue, DispatchEntry]] = {}
        self.rejected = 0

    @property
    def is_waiting(self) -> bool:
        """Whether a record waits for the next of its queue."""
        return bool(self._waiting)

    def put(self, queue: ConsumeQueue, entry: DispatchEntry) -> None:
        key = (entry.topic, entry.queue_id)
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            jumped = waiting[1]
            if entry.queue_offset == jumped.queue_offset + 1:
                self._follow(queue, jumped)
                self._follow(queue, entry)
                return
            self._reject(queue, jumped)
        if entry.queue_offset <= queue.max_offset:
            queue.append(entry)
        else:
            self._waiting[key] = queue, entry

    def forget(self, topic: str) -> None:
        """Drop what waits for queues of a topic that ends here."""
        for key in [key for key in self._waiting if key[0] == topic]:
            del self._waiting[key]

    def finish(self) -> None:
        """End the walk: append the records that still wait for a successor to confirm their queue offset."""
        for queue, entry in self._waiting.values():  # a message is better than no message
            self._follow(queue, entry)
        self._waiting.clear()

    def _follow(self, queue: ConsumeQueue, entry: DispatchEntry) -> None:
        if not queue.append(entry) and entry.queue_offset >= queue.max_offset:
            self._reject(queue, entry)

    def _reject(self, queue: ConsumeQueue, entry: DispatchEntry) -> None:
        """Reject a record with an impossible queue offset; its place in the queue stays blank."""
        self.rejected += 1
        log.error(
            "message lost: its header is damaged topic=%s queue=%d log_offset=%d says=%d expected=%d",
            entry.topic, entry.queue_id, entry.log_offset, entry.queue_offset, queue.max_offset,
        )  # fmt: skip
        queue.skip(queue.max_offset)
