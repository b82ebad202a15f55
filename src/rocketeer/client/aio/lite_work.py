"""A lite pull consumer between start and close: queues kept filled in the background, taken from by `poll`."""

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from pathlib import Path

from rocketeer.client.aio.group_consumer import STORE_S, GroupConsumer
from rocketeer.client.aio.instance import ClientInstance, Member
from rocketeer.client.aio.lite_buffer import LiteBuffer
from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.aio.puller import Puller
from rocketeer.client.aio.subscriptions import Subscriptions
from rocketeer.client.aio.tracing import Tracer
from rocketeer.client.core.allocate import Strategy
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.iteration import Delivery
from rocketeer.client.core.rebalance import Change
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.pull import PullSettings
from rocketeer.client.plans.reading import QueueQueries
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue


class LiteWork:
    """The parts put together: Puller -> LiteBuffer -> GroupConsumer (queues, rebalance)."""

    def __init__(
        self,
        instance: ClientInstance,
        config: ConsumerConfig,
        *,
        member: Member,
        subscriptions: Subscriptions,
        strategy: Strategy,
        auto_commit: bool,
        offset_folder: Path | None,
    ) -> None:
        self.instance = instance
        self._config = config
        self._auto_commit = auto_commit
        cluster = ClusterRoutes(instance.routes, instance.nameservers, config.call_timeout_s)
        self.reading = QueueQueries(config, cluster)
        self._offsets = OffsetKeeper.of(instance, cluster, config, offset_folder)
        self._puller = Puller(
            instance,
            cluster,
            config,
            PullSettings(
                config.full_group, config.pull_batch, config.pull_hold_s, config.namespace, lite=True
            ),
            ordered=True,
            subscription=subscriptions.get,
            pull_commits=None,
        )
        self._buffer = LiteBuffer(self._offsets, self._puller, auto_commit=auto_commit)
        self.iteration = self._buffer.iteration
        self._group = GroupConsumer(
            instance,
            config,
            member=member,
            subscriptions=subscriptions,
            strategy=strategy,
            offsets=self._offsets,
            puller=self._puller,
            service=self._buffer,
        )
        self.assigned = self._group.assigned
        self._rebalances = False
        self._tracer = Tracer(config, instance, instance.clock, "CONSUME") if config.trace else None

    # --- coming and going --------------------------------------------------------------------

    async def start(self, assigned: Collection[MessageQueue] | None, *, subscribed: bool) -> None:
        """With neither it is a member without queues, until it subscribes or is assigned some."""
        await self._group.join()
        await self._group.announce()
        if subscribed:
            await self._rebalance()
        elif assigned is not None:
            await self.assign(assigned)
        if self._auto_commit:
            self._group.spawn(self._store_repeatedly())

    async def close(self, *, consumed: bool) -> None:
        """`consumed` tells whether what was given last counts."""
        try:
            if self._group.joined:
                await self._stop_working(consumed=consumed)
            if self._tracer is not None:
                await self._tracer.close(self._config.close_timeout_s)
        finally:
            await self.instance.release()

    async def _stop_working(self, *, consumed: bool) -> None:
        await self._group.stop_pulling()
        if consumed:
            self._buffer.settle()
        if self._auto_commit:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STORE_S):
                    await self._buffer.store()
        self._buffer.close()
        await self._group.leave()

    async def _rebalance(self) -> None:
        self._rebalances = True
        await self._group.rebalance()

    async def subscription_changed(self, topic: str) -> None:
        await self._group.subscription_changed(topic)
        if not self._rebalances:
            await self._rebalance()

    # --- which queues ------------------------------------------------------------------------

    async def assign(self, queues: Collection[MessageQueue]) -> None:
        """Read exactly these queues, independent of the group; retried until all brokers have answered."""
        wanted, held = set(queues), set(self.assigned.queues())
        change = Change(tuple(sorted(held - wanted)), tuple(sorted(wanted - held)))
        if not await self.assigned.apply(change):
            self._group.spawn(self._assign_later(queues))

    async def _assign_later(self, queues: Collection[MessageQueue]) -> None:
        await asyncio.sleep(0.5)
        await self.assign(queues)

    async def seek(self, queue: MessageQueue, offset: QueueOffset) -> bool:
        """Go on at this offset; False when the queue is not ours."""
        held = self.assigned.table.get(queue)
        if held is None:
            return False
        self._buffer.forget(queue)
        self._offsets.table.update(queue, offset, only_forward=False)
        await self.assigned.restart_at(held, offset, store=False)
        return True

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        self._puller.pause_queues(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        self._puller.resume_queues(queues)
        for held in self.assigned.held():
            self._buffer.found(held, ())

    # --- messages and offsets ----------------------------------------------------------------

    async def poll(self, timeout_s: float, most: int) -> list[ReceivedMessage]:
        messages = await self._buffer.poll(timeout_s, most)
        if self._tracer is not None:
            self._tracer.given(messages)
        return messages

    async def take_next(self, timeout_s: float, most: int) -> list[Delivery]:
        """Up to `most` messages for a loop, waiting for the first."""
        deliveries = await self._buffer.take_next(timeout_s, most)
        if self._tracer is not None:
            self._tracer.given([each.message for each in deliveries])
        return deliveries

    def position(self, queue: MessageQueue) -> QueueOffset | None:
        """The offset of the next message `poll` gives."""
        held = self.assigned.table.get(queue)
        return held.commit_offset if held is not None else None

    async def commit(self) -> None:
        """Store everything given so far."""
        self._buffer.settle()
        await self._buffer.store()

    async def _store_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._config.commit_interval_s)
            await self._buffer.store()
