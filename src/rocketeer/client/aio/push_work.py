"""A push consumer between start and close: the parts that pull, consume, keep offsets and rebalance, put together.

Each part is whole when it is made and knows only those made before it:
Puller -> ConsumerState -> ConcurrentService or OrderlyService -> GroupConsumer (queues, rebalance) -> BrokerRequests
"""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketeer.client.aio.broker_requests import BrokerRequests
from rocketeer.client.aio.concurrent_service import ConcurrentService
from rocketeer.client.aio.consuming import ConsumerState, Listener
from rocketeer.client.aio.group_consumer import STORE_S, GroupConsumer
from rocketeer.client.aio.instance import ClientInstance, Member
from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.aio.orderly_service import OrderlyService
from rocketeer.client.aio.pull_offset_commits import PullOffsetCommits
from rocketeer.client.aio.puller import Puller
from rocketeer.client.aio.subscriptions import Subscriptions
from rocketeer.client.aio.tracing import Tracer
from rocketeer.client.core.allocate import Strategy
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.hooks import ConsumeHook
from rocketeer.client.core.transient import backoffs
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.pull import PullSettings
from rocketeer.model.subscription import MessageModel

LOOK_S_MAX: Final = 60.0
RENEW_S: Final = 0.5
RENEW_S_MAX: Final = 3.0
"""Pauses after a broker did not renew its locks: they run out meanwhile, and nothing of their queues is consumed."""


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
        cluster = ClusterRoutes(instance.routes, instance.nameservers, config.call_timeout_s)
        broadcasting = config.message_model is MessageModel.BROADCASTING
        self.offsets = OffsetKeeper.of(instance, cluster, config, offset_folder)
        pull_commits = PullOffsetCommits(
            self.offsets, pull_batch=config.pull_batch, now_s=instance.clock.monotonic_s
        )
        self._puller = Puller(
            instance,
            cluster,
            config,
            PullSettings(
                config.full_group,
                config.pull_batch,
                config.pull_hold_s,
                config.namespace,
                send_subscription=config.post_subscription_when_pull,
            ),
            ordered=ordered is not None,
            subscription=subscriptions.get,
            pull_commits=None if broadcasting else pull_commits,
        )
        state = ConsumerState(config, instance, cluster, self.offsets, listeners, finished=self._puller.wake)
        self._service: ConcurrentService | OrderlyService
        if ordered is None:
            self._service = ConcurrentService(state)
        else:
            self._service = OrderlyService(state, auto_commit=ordered[0])
        self._group = GroupConsumer(
            instance,
            config,
            member=member,
            subscriptions=subscriptions,
            strategy=strategy,
            offsets=self.offsets,
            puller=self._puller,
            service=self._service,
        )
        self.assigned = self._group.assigned
        self.subscription_changed = self._group.subscription_changed
        self._broker_requests = BrokerRequests(
            config, instance, subscriptions, state, self.assigned, self._service,
            orderly=ordered is not None, auto_commit=ordered is None or ordered[0],
        )  # fmt: skip
        self._hooks = hooks
        self._trace: tuple[Tracer, ConsumeHook] | None = None
        if config.trace:
            tracer = Tracer(config, instance, instance.clock, "CONSUME")
            self._trace = tracer, tracer.consume_hook()
            hooks.append(self._trace[1])

    # --- coming and going --------------------------------------------------------------------

    async def start(self) -> None:
        await self._group.join()
        self._broker_requests.open()
        await self._group.announce()
        await self._group.rebalance()
        self._group.spawn(self.offsets.store_repeatedly(self._config.commit_interval_s))
        if isinstance(self._service, OrderlyService):
            self._group.spawn(self._renew_locks(self._service))
        else:
            self._group.spawn(self._look_for_overdue(self._service))

    async def close(self) -> None:
        try:
            if self._group.joined:
                await self._stop_working()
            if self._trace is not None:
                tracer, hook = self._trace
                self._hooks.remove(hook)
                await tracer.close(self._config.close_timeout_s)
        finally:
            await self.instance.release()

    async def _stop_working(self) -> None:
        """Stop in order: no new messages, finish those in hand, store offsets, release locks, leave the group."""
        await self._group.stop_pulling()
        await self._service.finish(self._config.close_timeout_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORE_S):
                await self.offsets.store()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORE_S):
                await self._service.close(self.assigned.held())
        self._broker_requests.close()
        await self._group.leave()

    # --- while it runs -----------------------------------------------------------------------

    def pause(self) -> None:
        self._puller.pause()
        self._service.pause()

    def resume(self) -> None:
        self._service.resume()
        self._puller.resume()
        for held in self.assigned.held():
            self._service.found(held, ())

    async def _renew_locks(self, service: OrderlyService) -> None:
        wait_s = every_s = self._config.lock_renew_s
        soon_s = backoffs(RENEW_S, RENEW_S_MAX)
        while True:
            await asyncio.sleep(wait_s)
            renewed = await service.renew(self.assigned.held())
            for lost in renewed.lost:
                self.assigned.lose(lost)
            if renewed.unanswered:
                wait_s = min(next(soon_s), every_s)
            else:
                wait_s, soon_s = every_s, backoffs(RENEW_S, RENEW_S_MAX)

    async def _look_for_overdue(self, service: ConcurrentService) -> None:
        every_s = min(self._config.consume_timeout_s / 2, LOOK_S_MAX)
        while True:
            await asyncio.sleep(every_s)
            await service.send_back_overdue(self.assigned.held())
