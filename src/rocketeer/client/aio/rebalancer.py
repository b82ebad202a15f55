"""A consumer among its group: who is there, which queues are ours, and when to look again.

At the start, at a notice of the broker (40), when a route or a subscription changes, every 20 s, and soon again
when something could not be done yet.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.aio.subscriptions import Subscriptions
from rocketeer.client.core.allocate import Strategy
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.rebalance import Change, difference, share_of, without_subscription
from rocketeer.client.core.routes import TopicRoutes
from rocketeer.client.core.transient import backoffs
from rocketeer.client.plans.groups import consumer_ids, group_view
from rocketeer.errors import BrokerRefused, NoBroker, NoRoute, RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import Route
from rocketeer.model.subscription import MessageModel, Subscription
from rocketeer.model.topic import RETRY_PREFIX, without_namespace
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command

log = logging.getLogger(__name__)
_dice = random.SystemRandom()  # it looks by itself: no draw from `random` that its user may have seeded

SOON_S: Final = 0.2
"""The first look again after something went wrong; each further one waits twice as long."""
LOCKED_S_MAX: Final = 1.0
"""A queue that another member is about to give back is asked for at least so often."""


class Assigned(Protocol):
    """The queues this member has, and the way to change them."""

    def queues(self) -> Collection[MessageQueue]: ...

    async def apply(self, change: Change) -> bool:
        """Let go and take up queues; False when not all of it could be done yet."""


class Rebalancer:
    """Compares the group's members and queues with what this member holds, on notices and every `rebalance_s`."""

    def __init__(
        self,
        instance: ClientInstance,
        config: ConsumerConfig,
        strategy: Strategy,
        *,
        subscriptions: Subscriptions,
        assigned: Assigned,
        due: asyncio.Event,
    ) -> None:
        self._instance = instance
        self._config = config
        self._group = config.full_group
        self._strategy = strategy
        self._subscriptions = subscriptions
        self._assigned = assigned
        self._due = due
        self._pauses_s = backoffs(SOON_S, config.rebalance_s)
        self._task: asyncio.Task[None] | None = None
        self._logged: dict[str, str] = {}
        self._told: dict[str, tuple[frozenset[MessageQueue], frozenset[MessageQueue]]] = {}
        self._loop = asyncio.get_running_loop()
        self._balancing = asyncio.Lock()

    async def start(self) -> None:
        """Look once, then whenever something changes."""
        self._instance.handle_push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._notified, group=self._group)
        self._instance.routes.on_change.append(self._route_changed)
        wait_s = await self.rebalance()
        self._task = asyncio.create_task(self._repeat(wait_s), name=f"rebalance {self._group}")

    async def stop(self) -> None:
        self._instance.drop_push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, group=self._group)
        with contextlib.suppress(ValueError):
            self._instance.routes.on_change.remove(self._route_changed)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=1)

    def rebalance_soon(self) -> None:
        """Look again at once; from any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._due.set)

    def _notified(self, command: Command, address: str) -> None:
        log.info("group changed group=%s client=%s broker=%s", self._group, self._instance.client_id, address)
        self._due.set()

    def _route_changed(self, topic: str, route: Route) -> None:
        if topic in self._subscriptions.by_topic:
            self.rebalance_soon()

    async def _repeat(self, wait_s: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._due.wait()
            self._due.clear()
            try:
                wait_s = await self.rebalance()
            except Exception:
                log.exception("rebalance failed group=%s", self._group)
                wait_s = self._config.rebalance_s

    async def rebalance(self) -> float:
        """Look at every topic; how long to wait until the next time."""
        async with self._balancing:
            applied = known = True
            subscriptions = self._subscriptions.by_topic
            for topic in subscriptions:
                try:
                    known_queues, mine = await self._share(topic)
                    change = difference(topic, mine, self._assigned.queues())
                    applied = (not any(change) or await self._assigned.apply(change)) and applied
                    self._tell(topic, known_queues, mine)
                    self._logged.pop(topic, None)
                except RocketeerError as error:
                    known = False
                    self._log_once(topic, error)
            if gone := without_subscription(subscriptions, self._assigned.queues()):
                applied = await self._assigned.apply(Change(gone, ())) and applied
            if applied and known:
                await self._compare(subscriptions)
                self._pauses_s = backoffs(SOON_S, self._config.rebalance_s)
                return self._config.rebalance_s
        pause_s = next(self._pauses_s)
        return min(pause_s if applied else min(pause_s, LOCKED_S_MAX), self._config.rebalance_s)

    def _tell(self, topic: str, known: Collection[MessageQueue], mine: Collection[MessageQueue]) -> None:
        """Call the queue listener once for every change of the topic's queues or of our share."""
        listener = self._config.queue_listener
        now = (frozenset(known), frozenset(mine))
        if listener is None or self._told.get(topic, (frozenset(), frozenset())) == now:
            return
        self._told[topic] = now
        plain = topic if self._config.namespace is None else without_namespace(topic, self._config.namespace)
        try:
            listener(
                plain,
                sorted(MessageQueue(plain, queue.broker_name, queue.queue_id) for queue in known),
                sorted(MessageQueue(plain, queue.broker_name, queue.queue_id) for queue in mine),
            )
        except Exception:
            log.exception("queue listener failed group=%s topic=%s", self._group, topic)

    async def _share(self, topic: str) -> tuple[Collection[MessageQueue], Collection[MessageQueue]]:
        """All queues of the topic, and those that are ours."""
        known = await self._instance.route(topic)
        mine: Collection[MessageQueue] = known.subscribe
        if self._config.message_model is MessageModel.CLUSTERING:
            clients = await group_members(self._instance, self._config, topic, known)
            mine = share_of(self._instance.client_id, known.subscribe, clients, self._strategy)
        return known.subscribe, mine

    async def _compare(self, subscriptions: Mapping[str, Subscription]) -> None:
        """Members that subscribe differently take each other's messages away: say which topic it is."""
        for topic, ours in subscriptions.items():
            known = self._instance.routes.get(topic)
            addresses = [broker.master for broker in known.route.brokers if broker.master] if known else []
            if topic.startswith(RETRY_PREFIX) or not addresses:
                continue
            try:
                view = await self._instance.run(
                    group_view(addresses[0], self._group, self._config.call_timeout_s)
                )
            except RocketeerError:
                return  # only a courtesy
            theirs = view.expressions.get(topic)
            text = ""
            if theirs is not None and theirs != ours.expression:
                text = f"another member subscribes to {theirs!r}, this one to {ours.expression!r}"
            elif theirs is None and view.expressions:
                text = "another member does not subscribe to it"
            if text and self._logged.get(f"compare {topic}") != text:
                log.warning("group %s is subscribed differently topic=%s: %s", self._group, topic, text)
            self._logged[f"compare {topic}"] = text

    def _log_once(self, topic: str, error: RocketeerError) -> None:
        text = str(error)
        if self._logged.get(topic) == text:
            return
        self._logged[topic] = text
        # A retry topic comes into being with the first heartbeat: nothing to worry about.
        level = (
            logging.DEBUG
            if topic.startswith(RETRY_PREFIX) and isinstance(error, NoRoute)
            else logging.WARNING
        )
        log.log(level, "no rebalance group=%s topic=%s reason=%s", self._group, topic, text)


async def group_members(
    instance: ClientInstance, config: ConsumerConfig, topic: str, known: TopicRoutes
) -> list[str]:
    """The members as a broker of the topic knows them; it is told of us first if it does not know us."""
    addresses = [
        broker.master or next(iter(broker.addresses.values()))
        for broker in known.route.brokers
        if broker.addresses
    ]
    _dice.shuffle(addresses)
    failure: RocketeerError = NoBroker(topic, None, "is in its route")
    for address in addresses:
        for told in (False, True):
            try:
                clients = await instance.run(consumer_ids(address, config.full_group, config.call_timeout_s))
            except BrokerRefused as error:
                failure = error  # it knows nobody of the group
            except RocketeerError as error:
                failure = error
                break
            else:
                if told or instance.client_id in clients:
                    return clients
            await instance.heartbeat_now()
    raise failure


async def queues_in_balance(
    instance: ClientInstance, config: ConsumerConfig, topic: str, strategy: Strategy
) -> frozenset[MessageQueue]:
    """This member's share of the (full) topic's queues, as the group's members are now."""
    known = await instance.route(topic)
    if config.message_model is MessageModel.BROADCASTING:
        return frozenset(known.subscribe)
    clients = await group_members(instance, config, topic, known)
    return share_of(instance.client_id, known.subscribe, clients, strategy)
