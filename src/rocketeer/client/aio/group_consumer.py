"""What push and lite pull consumers share between start and close: membership in the group, and its queues."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final
from weakref import WeakKeyDictionary

from rocketeer.client.aio.assigned_queues import AssignedQueues
from rocketeer.client.aio.consuming import ConsumeService
from rocketeer.client.aio.filter_check import check_filters
from rocketeer.client.aio.instance import ClientInstance, Member
from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.aio.puller import Puller
from rocketeer.client.aio.rebalancer import Rebalancer
from rocketeer.client.aio.subscriptions import Subscriptions
from rocketeer.client.core.allocate import Strategy
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.transient import backoffs
from rocketeer.errors import ClientError, NoNameServer, NoRoute

log = logging.getLogger(__name__)

WAIT_S: Final = 0.1
WAIT_S_MAX: Final = 2.0
"""Pauses between two questions to name servers that do not answer yet."""
STORE_S: Final = 2.0
"""Time limit of the final commit."""

_groups_of: WeakKeyDictionary[ClientInstance, set[str]] = WeakKeyDictionary()


class GroupConsumer:
    """Used in this order: `join`, `announce`, `rebalance` (or change `assigned` by hand), `stop_pulling`, `leave`."""

    def __init__(
        self,
        instance: ClientInstance,
        config: ConsumerConfig,
        *,
        member: Member,
        subscriptions: Subscriptions,
        strategy: Strategy,
        offsets: OffsetKeeper,
        puller: Puller,
        service: ConsumeService,
    ) -> None:
        due = asyncio.Event()
        self._instance = instance
        self._config = config
        self._member = member
        self._subscriptions = subscriptions
        self._puller = puller
        self._offsets = offsets
        self.assigned = AssignedQueues(config.full_group, offsets, puller, service, changed=due.set)
        self._rebalancer = Rebalancer(
            instance,
            config,
            strategy,
            subscriptions=subscriptions,
            assigned=self.assigned,
            due=due,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self.joined = False

    async def join(self) -> None:
        """Become a member; raises for a filter brokers refuse, and NoNameServer when none answers."""
        groups = _groups_of.setdefault(self._instance, set())
        if self._config.full_group in groups:
            # One member per group and client id: a second one would be taken for the first.
            raise ClientError(
                f"this process has a consumer of group {self._config.group!r} under the client id "
                f"{self._instance.client_id!r} already: give one of them another instance_name="
            )
        groups.add(self._config.full_group)
        self.joined = True
        subscriptions = self._subscriptions.by_topic
        deadline_s = asyncio.get_running_loop().time() + self._config.start_timeout_s
        for topic in subscriptions:
            await self._find(topic, deadline_s)
        await check_filters(self._instance, self._config.full_group, subscriptions.values())

    async def _find(self, topic: str, deadline_s: float) -> None:
        """Look for the topic. One that does not exist yet is no error: the rebalance finds it when it does."""
        loop = asyncio.get_running_loop()
        pauses_s = backoffs(WAIT_S, WAIT_S_MAX)
        waits = False
        while True:
            try:
                await self._instance.route(topic)
            except NoRoute:
                self._offsets.begins_with(topic)
            except NoNameServer as error:
                left_s = deadline_s - loop.time()
                if left_s <= 0:
                    raise
                if not waits:
                    log.warning("waiting for a name server group=%s reason=%s", self._config.group, error)
                waits = True
                await asyncio.sleep(min(next(pauses_s), left_s))
                continue
            return

    async def announce(self) -> None:
        """Register with the brokers, whose requests may come from now on."""
        self._instance.join(self._member)
        await self._instance.heartbeat_now()

    async def rebalance(self) -> None:
        """Take up this member's share of the queues, now and whenever something changes."""
        await self._rebalancer.start()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it until it ends, or until `stop_pulling`."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def subscription_changed(self, topic: str) -> None:
        if topic in self._subscriptions.by_topic:
            await self._find(topic, 0.0)
        await (
            self._instance.heartbeat_now()
        )  # first: a pull with a newer version than the broker's is refused
        self._puller.restart(topic)
        self._rebalancer.rebalance_soon()

    async def stop_pulling(self) -> None:
        """Stop pulling; queues being released get a moment."""
        await self._rebalancer.stop()
        for task in tuple(self._tasks):
            task.cancel()
        await self.assigned.close()

    async def leave(self) -> None:
        """Say goodbye to the brokers."""
        self.assigned.drop_all()
        self._puller.close()
        await self._instance.leave(self._member)
        _groups_of.get(self._instance, set()).discard(self._config.full_group)
