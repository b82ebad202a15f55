"""A push consumer between start and close: the parts that pull, consume, keep offsets and rebalance, put together."""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from rocketeer.client.aio.assigned_queues import AssignedQueues
from rocketeer.client.aio.broker_requests import BrokerRequests
from rocketeer.client.aio.concurrently import ConcurrentService
from rocketeer.client.aio.consuming import ConsumerState, Listener
from rocketeer.client.aio.filter_check import check_filters
from rocketeer.client.aio.instance import ClientInstance, Member
from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.aio.orderly import OrderlyService
from rocketeer.client.aio.puller import Puller
from rocketeer.client.aio.rebalancer import Rebalancer
from rocketeer.client.aio.subscriptions import Subscriptions
from rocketeer.client.aio.tracing import Tracer
from rocketeer.client.core.allocate import Strategy
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.flow import Limits
from rocketeer.client.core.hooks import ConsumeHook
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.plans.brokers import Cluster
from rocketeer.client.plans.pull import PullSettings
from rocketeer.errors import ClientError, NoRoute
from rocketeer.model.subscription import MessageModel

STORE_S: Final = 2.0
"""Time limit of the final commit."""
LOOK_S_MAX: Final = 60.0

_groups_of: WeakKeyDictionary[ClientInstance, set[str]] = WeakKeyDictionary()


def join_group(instance: ClientInstance, config: ConsumerConfig) -> None:
    """One member per group and client id: a second one would be taken for the first."""
    groups = _groups_of.setdefault(instance, set())
    if config.full_group in groups:
        raise ClientError(
            f"this process has a consumer of group {config.group!r} under the client id "
            f"{instance.client_id!r} already: give one of them another instance_name="
        )
    groups.add(config.full_group)


def leave_group(instance: ClientInstance, config: ConsumerConfig) -> None:
    _groups_of.get(instance, set()).discard(config.full_group)


class PushWork:
    """`ordered` holds whether to commit by itself, and is None for concurrent consumption."""

    def __init__(
        self,
        instance: ClientInstance,
        config: ConsumerConfig,
        *,
        member: Member,
        subscriptions: Subscriptions,
        listeners: Mapping[str, Listener],
        strategy: Strategy,
        ordered: tuple[bool] | None,
        offset_folder: Path | None,
        hooks: list[ConsumeHook],
    ) -> None:
        self.instance = instance
        self._config = config
        self._member = member
        self._subscriptions = subscriptions
        self._is_ordered = ordered is not None
        cluster = Cluster(instance.routes, instance.nameservers, config.call_timeout_s)
        broadcasting = config.message_model is MessageModel.BROADCASTING
        self.offsets = OffsetKeeper.of(instance, cluster, config, offset_folder)
        self.assigned = AssignedQueues(
            config.full_group, self.offsets, lambda: self._rebalancer.rebalance_soon()
        )
        state = ConsumerState(
            config, instance, cluster, self.offsets, listeners, lambda held: self._puller.room(held)
        )
        self._service: ConcurrentService | OrderlyService
        if ordered is None:
            self._service = ConcurrentService(state)
        else:
            self._service = OrderlyService(state, auto_commit=ordered[0], lost=self.assigned.lose)
        self._puller = Puller(
            instance,
            cluster,
            PullSettings(
                config.full_group,
                config.pull_batch,
                config.pull_hold_s,
                config.namespace,
                send_subscription=config.post_subscription_when_pull,
            ),
            timeout_s=config.pull_timeout_s,
            interval_s=config.pull_interval_s,
            subscription=subscriptions.get,
            limits=self._limits,
            offset_to_tell=(lambda queue: None) if broadcasting else self.offsets.table.get,
            nothing=self._nothing_found,
            found=self._service.found,
            moved=self.assigned.restart_at,
        )
        self.assigned.use(self._puller, self._service)
        self._rebalancer = Rebalancer(
            instance,
            config,
            strategy,
            subscriptions=lambda: subscriptions.by_topic,
            held=self.assigned.queues,
            apply=self.assigned.apply,
        )
        self._broker_requests = BrokerRequests(
            config, instance, subscriptions, state, self.assigned, self._service,
            orderly=self._is_ordered, auto_commit=ordered is None or ordered[0],
        )  # fmt: skip
        self._tasks: set[asyncio.Task[None]] = set()
        self._joined = False
        self._hooks = hooks
        self._trace: tuple[Tracer, ConsumeHook] | None = None
        if config.trace:
            tracer = Tracer(config, instance, instance.clock, "CONSUME")
            self._trace = tracer, tracer.consume_hook()
            hooks.append(self._trace[1])

    # --- coming and going --------------------------------------------------------------------

    async def start(self) -> None:
        join_group(self.instance, self._config)
        self._joined = True
        for topic in self._subscriptions.by_topic:
            # Not there yet: the rebalance below says so. That no name server answers is an error.
            with contextlib.suppress(NoRoute):
                await self.instance.route(topic)
        await check_filters(self.instance, self._config.full_group, self._subscriptions.by_topic.values())
        self.instance.join(self._member)
        self._broker_requests.open()
        await self.instance.heartbeat_now()
        await self._rebalancer.start()
        self._spawn(self.offsets.store_repeatedly(self._config.commit_interval_s))
        if isinstance(self._service, OrderlyService):
            self._spawn(self._renew_locks(self._service))
        else:
            self._spawn(self._look_for_overdue(self._service))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        try:
            if self._joined:
                await self._stop_working()
                leave_group(self.instance, self._config)
            if self._trace is not None:
                tracer, hook = self._trace
                self._hooks.remove(hook)
                await tracer.close(self._config.close_timeout_s)
        finally:
            await self.instance.release()

    async def _stop_working(self) -> None:
        """Nothing new; finish what is in hand; store; give back; say goodbye: in this order."""
        await self._rebalancer.stop()
        for task in self._tasks:
            task.cancel()
        await self.assigned.close()
        await self._service.finish(self._config.close_timeout_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORE_S):
                await self.offsets.store()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORE_S):
                await self._service.close(self.assigned.held())
        self.assigned.drop_all()
        self._broker_requests.close()
        await self.instance.leave(self._member)

    # --- while it runs -----------------------------------------------------------------------

    def pause(self) -> None:
        self._puller.pause()
        self._service.pause()

    def resume(self) -> None:
        self._service.resume()
        self._puller.resume()
        for held in self.assigned.held():
            self._service.found(held, ())

    async def subscription_changed(self, topic: str) -> None:
        if topic in self._subscriptions.by_topic:
            with contextlib.suppress(NoRoute):
                await self.instance.route(topic)
        await self.instance.heartbeat_now()  # first: a pull with a newer version than the broker's is refused
        self._puller.restart(topic)
        self._rebalancer.rebalance_soon()

    def _limits(self, held: ProcessQueue) -> Limits:
        queues = self.assigned.per_topic.get(held.queue.topic, 1)
        return Limits.of(self._config, ordered=self._is_ordered, queues_of_topic=queues)

    def _nothing_found(self, held: ProcessQueue) -> None:
        """The broker looked further than the last message that matched: so far the group is through."""
        if not held.count:
            self.offsets.table.update(held.queue, held.next_offset)

    async def _renew_locks(self, service: OrderlyService) -> None:
        while True:
            await asyncio.sleep(self._config.lock_renew_s)
            await service.renew(self.assigned.held())

    async def _look_for_overdue(self, service: ConcurrentService) -> None:
        every_s = min(self._config.consume_timeout_s / 2, LOOK_S_MAX)
        while True:
            await asyncio.sleep(every_s)
            await service.send_back_overdue(self.assigned.held())
