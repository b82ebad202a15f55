# Written by tools/make_sync.py from client/aio/pull_consumer.py: change that, then `make sync`.
"""The pull consumer for threads: the caller says which queue and which offset, and keeps both.

with PullConsumer("audit", nameserver="127.0.0.1:9876") as consumer:
    for queue in consumer.queues("orders"):
        for message in consumer.read(queue):
            ...
"""

from collections.abc import Iterator
from typing import Unpack

from rocketeer.client.aio import pull_consumer as aio
from rocketeer.client.core.allocate import AVERAGELY, Strategy
from rocketeer.client.core.config import ConsumerOptions
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.lookups import COUNT_MAX
from rocketeer.client.plans.pull import PullResult
from rocketeer.client.plans.queries import FOREVER_MS
from rocketeer.client.sync.pull_consumer_base import PullConsumerBase
from rocketeer.clock import Clock
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL


class PullConsumer(PullConsumerBase):
    """Reads queues at any offset. Options are the fields of `ConsumerConfig`."""

    def __init__(self, group: str, *, clock: Clock | None = None, **options: Unpack[ConsumerOptions]) -> None:
        self._set_up(aio.PullConsumer(group, clock=clock, **options))

    def start(self) -> None:
        """Get ready; raises NoNameServer when no address is known."""
        return self._start()

    def close(self) -> None:
        """Leave the group and release the connections."""
        return self._close()

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic; raises NoRoute when nobody has it."""
        return self._run(self._started().queues(topic))

    def my_queues(self, topic: str, *, strategy: Strategy = AVERAGELY) -> list[MessageQueue]:
        """This member's share of a topic's queues, as the group has it now: each queue is in one member's share.

        Ask again every now and then: shares change when members come and go. Raises NoRoute.
        """
        return self._my_queues(topic, strategy=strategy)

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        tags: str = SUB_ALL,
        sql: str | None = None,
        max_count: int | None = None,
        hold_s: float = 0.0,
    ) -> PullResult:
        """The messages at an offset, as many as the broker gives at a time (32). With `hold_s` it may wait for
        the first (Java's pullBlockIfNotFound: 20 s); `next_offset` is where to go on. `sql` filters by properties
        instead of tags. The answer may take 10 s more than the hold."""
        plan = self._started().pull(queue, offset, tags=tags, sql=sql, max_count=max_count, hold_s=hold_s)
        return self._run(plan)

    def read(
        self,
        queue: MessageQueue,
        begin: int | None = None,
        end: int | None = None,
        *,
        tags: str = SUB_ALL,
        sql: str | None = None,
    ) -> Iterator[ReceivedMessage]:
        """Every message from `begin` (the oldest) up to `end` (what is there now)."""
        at = self.min_offset(queue) if begin is None else begin
        end = self.max_offset(queue) if end is None else end
        while at < end:
            result = self.pull(queue, at, tags=tags, sql=sql)
            for message in result.messages:
                if message.queue_offset < end:
                    yield message
            if result.next_offset <= at:
                return
            at = result.next_offset

    def view_message(self, message_id: str, topic: str | None = None) -> ReceivedMessage:
        """The message of an id: the broker's (`offset_message_id`), or with `topic` also the sender's (`message_id`).

        Raises MessageNotFound.
        """
        self._started()
        plan = self.lookups.view(message_id, topic)
        return self._run(plan)

    def query_messages(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        max_count: int = COUNT_MAX,
    ) -> list[ReceivedMessage]:
        """The messages with this key stored between the two times, oldest first; at most `max_count` per broker."""
        self._started()
        plan = self.lookups.query(topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count)
        return self._run(plan)

    def message_at(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """The message at a place in a queue; raises MessageNotFound when there is none (any more, or yet)."""
        self._started()
        plan = self.lookups.message_at(queue, offset)
        return self._run(plan)

    def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """The group's stored offset; None when it has none."""
        return self._run(self._started().committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset."""
        self._run(self._started().commit(queue, offset))

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Where the oldest message is that the broker still has."""
        return self._run(self._started().min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Where the next message will be."""
        return self._run(self._started().max_offset(queue))

    def offset_at(self, queue: MessageQueue, time_ms: int) -> QueueOffset:
        """The message stored nearest to that time."""
        return self._run(self._started().offset_at(queue, time_ms))

    def earliest_ms(self, queue: MessageQueue) -> int:
        """When the oldest message that is still there was stored, in ms since 1970; -1 for an empty queue."""
        return self._run(self._started().earliest_ms(queue))

    def send_back(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Have the group get the message again through its retry topic; -1: put it with the dead letters."""
        self._run(self._started().send_back(message, delay_level))
