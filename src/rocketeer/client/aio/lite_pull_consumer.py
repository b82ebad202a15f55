"""The lite pull consumer on asyncio: subscribe or assign, then ask for messages when you want some.

consumer = LitePullConsumer("reports", nameserver="127.0.0.1:9876")
consumer.subscribe("orders")
async with consumer:
    async for message in consumer:        # or: for message in await consumer.poll()
        ...
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from types import TracebackType
from typing import Final, Self, Unpack

from rocketeer.client.aio.instance import ClientInstance, Membership
from rocketeer.client.aio.lite_work import LiteWork
from rocketeer.client.aio.subscriptions import Subscriptions
from rocketeer.client.core.allocate import AVERAGELY, Strategy, checked_strategy
from rocketeer.client.core.config import ConsumerConfig, ConsumerOptions
from rocketeer.client.core.consumer_rules import checked
from rocketeer.client.core.option_types import known_options
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.reading import checked_place
from rocketeer.clock import Clock, SystemClock
from rocketeer.errors import ClientClosed, ClientError, ConfigError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL, ConsumeType, MessageModel
from rocketeer.protocol.bodies.heartbeat import ConsumerData

POLL_S: Final = 5.0


class LitePullConsumer:
    """Options are the fields of `ConsumerConfig`. `subscribe` or `assign` before the start, or any time after it.

    With `subscribe` the members of the group share the queues; with `assign` this one reads just those it names.
    What `poll` gave counts as consumed when it is called again; what a loop over the consumer gave, when the
    loop asks for the next message. Offsets are stored every `commit_interval_s` and at the end, or only by
    `commit()` with `auto_commit=False`.
    """

    def __init__(
        self,
        group: str,
        *,
        auto_commit: bool = True,
        strategy: Strategy = AVERAGELY,
        offset_folder: Path | str | None = None,
        clock: Clock | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.config = checked(ConsumerConfig(group, **known_options(ConsumerConfig, options)))
        self._auto_commit = auto_commit
        self._strategy = checked_strategy(strategy)
        self._offset_folder = None if offset_folder is None else Path(offset_folder)
        self._clock = clock or SystemClock()
        self._subscriptions = Subscriptions(self.config, self._clock, with_retries=False)
        self._assigned: tuple[MessageQueue, ...] | None = None
        self._subscribed = False
        self._work: LiteWork | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = asyncio.Lock()

    # --- what to read ------------------------------------------------------------------------

    def subscribe(self, topic: str, *, tags: str = SUB_ALL, sql: str | None = None) -> None:
        """Read a topic together with the other members of the group; any time. `sql` filters by properties."""
        if self._assigned is not None:
            raise ClientError("subscribe and assign exclude each other: this consumer was assigned queues")
        full = self._subscriptions.add(topic, tags, sql)
        self._subscribed = True
        self._changed(full)

    def unsubscribe(self, topic: str) -> None:
        """Read the topic no longer; any time."""
        self._changed(self._subscriptions.remove(topic))

    def _changed(self, full_topic: str) -> None:
        """Also called from other threads: the sync consumer hosts this one."""
        if self._work is not None and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._work.subscription_changed(full_topic), self._loop)

    async def assign(
        self, queues: Collection[MessageQueue], *, tags: str = SUB_ALL, sql: str | None = None
    ) -> None:
        """Read exactly these queues; may be called again with others."""
        self.assign_first(queues, tags=tags, sql=sql)
        if self._work is not None:
            await self._work.assign(self._assigned or ())

    def assign_first(
        self, queues: Collection[MessageQueue], *, tags: str = SUB_ALL, sql: str | None = None
    ) -> None:
        """`assign` before the start, where there is nothing to wait for."""
        if self._subscribed:
            raise ClientError("subscribe and assign exclude each other: this consumer subscribes to topics")
        self._assigned = tuple(self._full(queue) for queue in queues)
        for topic in {queue.topic for queue in self._assigned}:
            self._subscriptions.add(topic, tags, sql)

    # --- coming and going --------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error in a loop means that its message was not consumed. CancelledError and GeneratorExit too.
        await self.close(consumed=kind is None)

    async def start(self) -> None:
        """Join the group and begin to pull; raises NoNameServer when none answers."""
        async with self._starting:
            if self._work is not None:
                self._work.instance.check_loop(f"consumer {self.config.group!r}")
                return
            broadcasting = self.config.message_model is MessageModel.BROADCASTING
            instance = await ClientInstance.acquire(self.config, clock=self._clock, keep_default=broadcasting)
            work = LiteWork(
                instance,
                self.config,
                member=self,
                subscriptions=self._subscriptions,
                strategy=self._strategy,
                auto_commit=self._auto_commit,
                offset_folder=self._offset_folder,
            )
            try:
                await work.start(self._assigned, subscribed=self._subscribed)
            except BaseException:
                await work.close(consumed=False)
                raise
            self._work = work
            self._loop = asyncio.get_running_loop()

    async def close(self, *, consumed: bool = True) -> None:
        """Store offsets (with `auto_commit`), leave the group. `consumed=False`: what was given last comes again."""
        if self._work is not None:
            self._work.instance.check_loop(f"consumer {self.config.group!r}")
        work, self._work = self._work, None
        if work is not None:
            await work.close(consumed=consumed)

    def abandon(self) -> None:
        """After a fork, in the child: what runs is the parent's."""
        self._work = None
        self._starting = asyncio.Lock()

    # --- messages ----------------------------------------------------------------------------

    async def poll(self, timeout_s: float = POLL_S, *, max_count: int | None = None) -> list[ReceivedMessage]:
        """The next messages, at most `max_count` (32); none when none came in time."""
        if max_count is not None and max_count < 1:
            raise ConfigError(f"max_count is {max_count}: it must be 1 or more")
        return await self.working.poll(timeout_s, max_count or self.config.pull_batch)

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        iteration = self.working.iteration
        while (message := iteration.next()) is None:
            if self._work is None:
                raise StopAsyncIteration
            iteration.add(await self._work.take_next(POLL_S, self.config.pull_batch))
        return message

    # --- places ------------------------------------------------------------------------------

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic; raises NoRoute when nobody has it."""
        return await self.working.instance.run(self.working.reading.queues(topic))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues in this member's hands now."""
        return sorted(self.working.reading.outer(self.working.assigned.queues()))

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at this offset; raises ClientError for a queue that is not assigned to us."""
        place = checked_place(queue, offset)
        if not await self.working.seek(self._full(queue), place):
            raise ClientError(f"{queue} is not among the queues assigned to this consumer: {self.assignment}")

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that the broker still has."""
        await self.seek(queue, await self.working.instance.run(self.working.reading.min_offset(queue)))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on at the message that comes next."""
        await self.seek(queue, await self.working.instance.run(self.working.reading.max_offset(queue)))

    async def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        """Go on at the message stored nearest to that time."""
        await self.seek(queue, await self.offset_at(queue, time_ms))

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> QueueOffset:
        """The offset of the message stored nearest to that time."""
        return await self.working.instance.run(self.working.reading.offset_at(queue, time_ms))

    def position(self, queue: MessageQueue) -> QueueOffset | None:
        """The offset of the next message; None for a queue that is not ours."""
        return self.working.position(self._full(queue))

    def pause(self, *queues: MessageQueue) -> None:
        """Give no messages of these queues (of all) until `resume`."""
        self.working.pause(self._chosen(queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Give messages of these queues (of all) again after `pause`."""
        self.working.resume(self._chosen(queues))

    def _chosen(self, queues: tuple[MessageQueue, ...]) -> list[MessageQueue]:
        return [self._full(queue) for queue in queues] or list(self.working.assigned.queues())

    async def commit(self) -> None:
        """Store the offsets of everything given so far."""
        await self.working.commit()

    async def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """The group's stored offset; None when it has none."""
        return await self.working.instance.run(self.working.reading.committed(queue))

    # --- inside ------------------------------------------------------------------------------

    @property
    def working(self) -> LiteWork:
        """What runs between start and close."""
        if self._work is None:
            raise ClientClosed(f"consumer {self.config.group!r} is not running: start() it first")
        return self._work

    def _full(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self.config.full_topic(queue.topic), queue.broker_name, queue.queue_id)

    def heartbeat(self) -> Membership:
        """What brokers learn of us every 30 s (called by the client instance)."""
        subscriptions = () if self._assigned is not None else tuple(self._subscriptions.by_topic.values())
        return Membership(
            consumer=ConsumerData(
                self.config.full_group,
                ConsumeType.CONSUME_ACTIVELY,
                self.config.message_model,
                self.config.consume_from,
                subscriptions,
                self.config.unit_mode,
            )
        )
