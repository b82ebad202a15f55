"""The pull consumer on asyncio: the caller says which queue and which offset, and keeps both.

async with PullConsumer("audit", nameserver="127.0.0.1:9876") as consumer:
    for queue in await consumer.queues("orders"):
        async for message in consumer.read(queue):
            ...
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar, Unpack

from rocketeer.client.aio.instance import ClientInstance, Membership
from rocketeer.client.aio.rebalancer import queues_in_balance
from rocketeer.client.core.allocate import AVERAGELY, Strategy
from rocketeer.client.core.config import ConsumerConfig, ConsumerOptions
from rocketeer.client.core.consumer_rules import checked
from rocketeer.client.core.option_types import known_options
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.lifetime import ContextManagedAsync
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.lookups import COUNT_MAX, Lookups
from rocketeer.client.plans.pull import PullResult
from rocketeer.client.plans.queries import FOREVER_MS
from rocketeer.client.plans.reading import QueueQueries
from rocketeer.client.secure import ConnectionSecurity
from rocketeer.clock import Clock
from rocketeer.errors import ClientClosed
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL, ConsumeType
from rocketeer.protocol.bodies.heartbeat import ConsumerData

T = TypeVar("T")


class PullConsumer(ContextManagedAsync):
    """Reads queues at any offset. Options are the fields of `ConsumerConfig`."""

    def __init__(self, group: str, *, clock: Clock | None = None, **options: Unpack[ConsumerOptions]) -> None:
        self.config = checked(ConsumerConfig(group, **known_options(ConsumerConfig, options)))
        self._clock = clock
        self._instance: ClientInstance | None = None
        self._starting = asyncio.Lock()
        self.reading: QueueQueries
        self.lookups: Lookups
        self.security: ConnectionSecurity
        """Exist once started; the sync consumer, which hosts this one, runs its plans too."""

    async def start(self) -> None:
        """Get ready; raises NoNameServer when no address is known."""
        async with self._starting:
            if self._instance is None:
                instance = await ClientInstance.acquire(self.config, clock=self._clock)
                cluster = ClusterRoutes(instance.routes, instance.nameservers, self.config.call_timeout_s)
                self.security = instance.security
                self.reading = QueueQueries(self.config, cluster)
                self.lookups = Lookups(self.config, cluster, instance.clock)
                instance.join(self)
                self._instance = instance

    async def close(self) -> None:
        """Leave the group and release the connections."""
        if self._instance is not None:
            self._instance.check_loop(f"consumer {self.config.group!r}")
        instance, self._instance = self._instance, None
        if instance is not None:
            try:
                await instance.leave(self)
            finally:
                await instance.release()

    def abandon(self) -> None:
        """After a fork, in the child: what runs is the parent's."""
        self._instance = None
        self._starting = asyncio.Lock()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic; raises NoRoute when nobody has it."""
        return await self._run(self._started().queues(topic))

    async def my_queues(self, topic: str, *, strategy: Strategy = AVERAGELY) -> list[MessageQueue]:
        """This member's share of a topic's queues, as the group has it now: each queue is in one member's share.

        Ask again every now and then: shares change when members come and go. Raises NoRoute.
        """
        self._started()
        assert self._instance is not None
        full = self.config.full_topic(topic)
        mine = await queues_in_balance(self._instance, self.config, full, strategy)
        return self.reading.outer(sorted(mine))

    async def pull(
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
        return await self._run(plan)

    async def read(
        self,
        queue: MessageQueue,
        begin: int | None = None,
        end: int | None = None,
        *,
        tags: str = SUB_ALL,
        sql: str | None = None,
    ) -> AsyncIterator[ReceivedMessage]:
        """Every message from `begin` (the oldest) up to `end` (what is there now)."""
        at = await self.min_offset(queue) if begin is None else begin
        end = await self.max_offset(queue) if end is None else end
        while at < end:
            result = await self.pull(queue, at, tags=tags, sql=sql)
            for message in result.messages:
                if message.queue_offset < end:
                    yield message
            if result.next_offset <= at:
                return
            at = result.next_offset

    async def view_message(self, message_id: str, topic: str | None = None) -> ReceivedMessage:
        """The message of an id: the broker's (`offset_message_id`), or with `topic` also the sender's (`message_id`).

        Raises MessageNotFound.
        """
        self._started()
        plan = self.lookups.view(message_id, topic)
        return await self._run(plan)

    async def query_messages(
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
        return await self._run(plan)

    async def message_at(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """The message at a place in a queue; raises MessageNotFound when there is none (any more, or yet)."""
        self._started()
        plan = self.lookups.message_at(queue, offset)
        return await self._run(plan)

    async def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """The group's stored offset; None when it has none."""
        return await self._run(self._started().committed(queue))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset."""
        await self._run(self._started().commit(queue, offset))

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Where the oldest message is that the broker still has."""
        return await self._run(self._started().min_offset(queue))

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Where the next message will be."""
        return await self._run(self._started().max_offset(queue))

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> QueueOffset:
        """The message stored nearest to that time."""
        return await self._run(self._started().offset_at(queue, time_ms))

    async def earliest_ms(self, queue: MessageQueue) -> int:
        """When the oldest message that is still there was stored, in ms since 1970; -1 for an empty queue."""
        return await self._run(self._started().earliest_ms(queue))

    async def send_back(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Have the group get the message again through its retry topic; -1: put it with the dead letters."""
        await self._run(self._started().send_back(message, delay_level))

    def heartbeat(self) -> Membership:
        """What brokers learn of us every 30 s (called by the client instance)."""
        config = self.config
        data = ConsumerData(
            config.full_group,
            ConsumeType.CONSUME_ACTIVELY,
            config.message_model,
            config.consume_from,
            (),
            config.unit_mode,
        )
        return Membership(consumer=data)

    def _started(self) -> QueueQueries:
        if self._instance is None:
            raise ClientClosed(f"consumer {self.config.group!r} is not running: start() it first")
        return self.reading

    async def _run(self, plan: Plan[T]) -> T:
        assert self._instance is not None
        return await self._instance.run(plan)
