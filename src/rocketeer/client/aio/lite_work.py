"""A lite pull consumer between start and close: queues kept filled in the background, taken from by `poll`."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from rocketeer.client.aio.assigned_queues import AssignedQueues
from rocketeer.client.aio.filter_check import check_filters
from rocketeer.client.aio.instance import ClientInstance, Member
from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.aio.puller import Puller
from rocketeer.client.aio.push_work import join_group, leave_group
from rocketeer.client.aio.rebalancer import Rebalancer
from rocketeer.client.aio.subscriptions import Subscriptions
from rocketeer.client.aio.tracing import Tracer
from rocketeer.client.core.allocate import Strategy
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.flow import Limits
from rocketeer.client.core.iteration import Delivery, IterationBuffer, hand_out
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.rebalance import Change
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.brokers import Cluster
from rocketeer.client.plans.pull import PullSettings
from rocketeer.client.plans.reading import Reading
from rocketeer.errors import NoRoute
from rocketeer.model.queue import MessageQueue

STORE_S: Final = 2.0
_PAUSED: Final = Limits(-1, -1, None)  # so nothing at all fits: every queue holds at least 0
FOREVER_S: Final = float("inf")


class LiteWork:
    """Also the `ConsumeService` its AssignedQueues talk to: there are no listeners and no locks here."""

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
        self._member = member
        self._subscriptions = subscriptions
        self._auto_commit = auto_commit
        cluster = Cluster(instance.routes, instance.nameservers, config.call_timeout_s)
        self.reading = Reading(config, cluster)
        self._offsets = OffsetKeeper.of(instance, cluster, config, offset_folder)
        self.assigned = AssignedQueues(
            config.full_group, self._offsets, lambda: self._rebalancer.rebalance_soon()
        )
        self._puller = Puller(
            instance,
            cluster,
            PullSettings(
                config.full_group, config.pull_batch, config.pull_hold_s, config.namespace, lite=True
            ),
            timeout_s=config.pull_timeout_s,
            interval_s=config.pull_interval_s,
            subscription=subscriptions.get,
            limits=self._limits,
            offset_to_tell=lambda queue: None,
            nothing=self._nothing_found,
            found=self.found,
            moved=self.assigned.restart_at,
        )
        self.assigned.use(self._puller, self)
        self._rebalancer = Rebalancer(
            instance,
            config,
            strategy,
            subscriptions=lambda: subscriptions.by_topic,
            held=self.assigned.queues,
            apply=self.assigned.apply,
        )
        self.iteration = IterationBuffer()
        self._polled: dict[MessageQueue, int] = {}
        """Offsets behind what the last poll gave: consumed when the next one comes."""
        self._ready: deque[ProcessQueue] = deque()
        self._arrived = asyncio.Event()
        self._paused: frozenset[MessageQueue] = frozenset()
        self._by_hand = False
        self._joined = False
        self._tracer = Tracer(config, instance, instance.clock, "CONSUME") if config.trace else None
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- coming and going --------------------------------------------------------------------

    async def start(self, assigned: Collection[MessageQueue] | None) -> None:
        join_group(self.instance, self._config)
        self._joined = True
        self._by_hand = assigned is not None
        for topic in self._subscriptions.by_topic:
            with contextlib.suppress(NoRoute):
                await self.instance.route(topic)
        await check_filters(self.instance, self._config.full_group, self._subscriptions.by_topic.values())
        self.instance.join(self._member)
        await self.instance.heartbeat_now()
        if assigned is None:
            await self._rebalancer.start()
        else:
            await self.assign(assigned)
        if self._auto_commit:
            self._spawn(self._store_repeatedly())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, *, consumed: bool) -> None:
        """`consumed` tells whether what was given last counts."""
        try:
            if self._joined:
                await self._stop_working(consumed=consumed)
                leave_group(self.instance, self._config)
            if self._tracer is not None:
                await self._tracer.close(self._config.close_timeout_s)
        finally:
            await self.instance.release()

    async def _stop_working(self, *, consumed: bool) -> None:
        if not self._by_hand:
            await self._rebalancer.stop()
        for task in tuple(self._tasks):
            task.cancel()
        await self.assigned.close()
        if consumed:
            self.iteration.settle()
            self._settle_polled()
        if self._auto_commit:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STORE_S):
                    await self._store()
        self.assigned.drop_all()
        self._closed = True
        self._arrived.set()  # a poll that waits ends with nothing
        await self.instance.leave(self._member)

    # --- which queues ------------------------------------------------------------------------

    async def assign(self, queues: Collection[MessageQueue]) -> None:
        """Exactly these, whoever else reads them; tried again until all brokers have answered."""
        wanted, held = set(queues), set(self.assigned.queues())
        change = Change(tuple(sorted(held - wanted)), tuple(sorted(wanted - held)))
        if not await self.assigned.apply(change):
            self._spawn(self._assign_later(queues))

    async def _assign_later(self, queues: Collection[MessageQueue]) -> None:
        await asyncio.sleep(0.5)
        await self.assign(queues)

    async def subscription_changed(self, topic: str) -> None:
        if topic in self._subscriptions.by_topic:
            with contextlib.suppress(NoRoute):
                await self.instance.route(topic)
        await self.instance.heartbeat_now()
        self._puller.restart(topic)
        self._rebalancer.rebalance_soon()

    async def seek(self, queue: MessageQueue, offset: int) -> bool:
        """Go on at this offset; False when the queue is not ours."""
        held = self.assigned.table.get(queue)
        if held is None:
            return False
        self._polled.pop(queue, None)
        self.iteration.done.pop(queue, None)
        self._offsets.table.update(queue, offset, only_forward=False)
        await self.assigned.restart_at(held, offset, store=False)
        return True

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        self._paused |= frozenset(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        self._paused -= frozenset(queues)
        for held in self.assigned.held():
            self._puller.room(held)
            self.found(held, ())

    def _limits(self, held: ProcessQueue) -> Limits:
        if held.queue in self._paused:
            return _PAUSED
        queues = self.assigned.per_topic.get(held.queue.topic, 1)
        return Limits.of(self._config, ordered=True, queues_of_topic=queues)

    # --- messages ----------------------------------------------------------------------------

    async def poll(self, timeout_s: float, most: int) -> list[ReceivedMessage]:
        self._settle_polled()
        deliveries = await self.take_next(timeout_s, most)
        for _, message, after in deliveries:
            self._polled[message.queue] = after
        return [each.message for each in deliveries]

    async def take_next(self, timeout_s: float, most: int) -> list[Delivery]:
        """Up to `most` messages, waiting for the first."""
        deliveries = self._take(most)
        if not deliveries and timeout_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    while not deliveries and not self._closed:
                        self._arrived.clear()
                        await self._arrived.wait()
                        deliveries = self._take(most)
        if self._tracer is not None:
            self._tracer.given([each.message for each in deliveries])
        return deliveries

    def _take(self, most: int) -> list[Delivery]:
        """From the queues in turn, so that a full one does not starve the others."""
        deliveries: list[Delivery] = []
        for _ in range(len(self._ready)):
            held = self._ready.popleft()
            if held.dropped or held.queue in self._paused or not held.waiting:
                continue
            deliveries += hand_out(held, most - len(deliveries))
            if held.waiting:
                self._ready.append(held)
            self._puller.room(held)
            if len(deliveries) >= most:
                break
        return deliveries

    def found(self, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        if held.waiting and held not in self._ready:
            self._ready.append(held)
        self._arrived.set()

    def _nothing_found(self, held: ProcessQueue) -> None:
        """Nothing that matches up to here; what was given before must be consumed first."""
        queue = held.queue
        if not held.count and queue not in self._polled and queue not in self.iteration.done:
            self._offsets.table.update(queue, held.next_offset)

    # --- offsets -----------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the next message `poll` gives."""
        held = self.assigned.table.get(queue)
        return held.commit_offset if held is not None else None

    async def commit(self) -> None:
        """Store everything given so far."""
        self.iteration.settle()
        self._settle_polled()
        await self._store()

    async def _store(self) -> None:
        for queue in list(self.iteration.done):
            if (offset := self.iteration.done.pop(queue, None)) is not None and queue in self.assigned.table:
                self._offsets.table.update(queue, offset)
        await self._offsets.store()

    def _settle_polled(self) -> None:
        for queue, offset in self._polled.items():
            if queue in self.assigned.table:
                self._offsets.table.update(queue, offset)
        self._polled.clear()

    async def _store_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._config.commit_interval_s)
            await self._store()

    # --- the rest of a service ---------------------------------------------------------------

    async def wait_idle(self, held: ProcessQueue) -> None:
        return

    async def lock(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        return dict.fromkeys(queues, FOREVER_S)

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        return

    async def let_go(self, held: ProcessQueue) -> None:
        """What was consumed for sure is stored; what was given last comes again, to the next owner."""
        self._polled.pop(held.queue, None)
        if (offset := self.iteration.done.pop(held.queue, None)) is not None:
            self._offsets.table.update(held.queue, offset)
        if self._auto_commit:
            await self._offsets.store({held.queue})
