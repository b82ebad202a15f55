"""One client of the cluster, shared by producers and consumers of one id: connections, routes, heartbeats.

    instance = await ClientInstance.acquire(config)              # started when it is the first with that id
    instance.handle_push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, on_change, group="billing")
    instance.join(consumer)                                      # anything with `.heartbeat() -> Membership`
    await instance.heartbeat_now()                               # members exist from now, not in 30 s
    known = await instance.route("orders")                       # TopicRoutes; polled every 30 s from now on
    reply = await instance.run(some_plan(...))                   # plans run over the shared connections
    await instance.leave(consumer)                               # says goodbye to the brokers
    await instance.release()                                     # the last one out closes the connections

Bound to the loop it was acquired on. Only `routes` (and `wake_heartbeat`) may be used from other threads.
"""

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, TypeVar
from weakref import WeakKeyDictionary

from rocketeer.client import discovery
from rocketeer.client.aio.drivers import AsyncDriver
from rocketeer.client.aio.pending_replies import PendingReplies
from rocketeer.client.core.config import ClientConfig, client_id
from rocketeer.client.core.nameservers import NameServers, parse_addresses
from rocketeer.client.core.routes import RouteCache, TopicRoutes
from rocketeer.client.plans.clients import send_heartbeat, unregister
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.routes import find_route, refresh_route
from rocketeer.client.secure import security_of
from rocketeer.clock import Clock, SystemClock
from rocketeer.errors import ClientError, NoNameServer, RocketeerError
from rocketeer.model.route import MASTER_ID, Route
from rocketeer.protocol.bodies.heartbeat import ConsumerData, Heartbeat
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from rocketeer.remoting.client import PushHandler, RemotingClient

log = logging.getLogger(__name__)
T = TypeVar("T")

REDISCOVER_S: Final = 120.0
"""How often the address server is asked again."""
PAUSE_S: Final = 0.1
"""Shortest pause between two runs of a background job."""
GOODBYE_S: Final = 1.0
"""Time limit of leaving one broker."""


@dataclass(frozen=True, slots=True)
class Membership:
    """What one producer or consumer contributes to the heartbeat: one of the two."""

    producer_group: str | None = None
    consumer: ConsumerData | None = None


class Member(Protocol):
    """A producer or consumer; asked anew every time, so a changed subscription is in the next heartbeat."""

    def heartbeat(self) -> Membership: ...


class ClientInstance:
    """Connections, routes and heartbeats of one client id. Make it with `acquire`, never directly."""

    _running: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, "ClientInstance"]]] = (
        WeakKeyDictionary()
    )

    def __init__(self, config: ClientConfig, identity: str, source: str, clock: Clock) -> None:
        self.client_id = identity
        self.config = config
        self.clock = clock
        self.routes = RouteCache()
        given = () if discovery.is_url(source) else parse_addresses(source)
        self.nameservers = NameServers(given, start=random.randrange(max(len(given), 1)))
        self.security = security_of(config, clock.now_ms)
        self.remoting = RemotingClient(sign=self.security.sign, tls=self.security.tls)
        self.remoting.on_close.append(self._connection_closed)
        self.driver = AsyncDriver(self.remoting, config.rpc_hooks)
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._holders = 0
        self._started = False
        self._starting = asyncio.Lock()
        self._members: list[Member] = []
        self._pushes: dict[int, dict[str | None, PushHandler]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._heartbeat_due = asyncio.Event()
        self._suspects: set[str] = set()
        self._suspect_due = asyncio.Event()
        self._registered_at: set[str] = set()
        self.pending_replies = PendingReplies(self.clock, self.broker_at)
        """Questions of all producers of this id: brokers know the client, not its producers."""
        self.handle_push(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self.pending_replies.arrived)

    # --- coming and going --------------------------------------------------------------------

    @classmethod
    async def acquire(
        cls, config: ClientConfig, *, clock: Clock | None = None, keep_default: bool = False
    ) -> "ClientInstance":
        """The running instance with the config's client id, or a new one; pair it with `release`."""
        source = discovery.find_source(config.nameserver, unit_name=config.unit_name)
        identity = client_id(
            config,
            ip=discovery.local_ip(),
            pid=os.getpid(),
            nanos=time.monotonic_ns(),
            keep_default=keep_default,
        )
        shared = cls._running.setdefault(asyncio.get_running_loop(), {})
        # Two clusters, or accounts, may be used under one name: then these tell the instances apart.
        hooks = [id(hook) for hook in config.rpc_hooks]
        key = f"{identity}\n{source}\n{config.access_key}\n{config.tls!r}\n{hooks}"
        instance = shared.get(key)
        if instance is None:
            instance = shared[key] = cls(config, identity, source, clock or SystemClock())
        instance._holders += 1
        try:
            await instance._start()
        except BaseException:
            await instance.release()
            raise
        return instance

    def check_loop(self, who: str) -> None:
        """Raise ClientError where another event loop runs: nothing of a client can be used from there."""
        if asyncio.get_running_loop() is not self._loop:
            raise ClientError(f"{who} runs on another event loop: use it there, or make one here")

    async def release(self) -> None:
        """The last holder stops the background work and closes the connections; returns within seconds."""
        self._holders -= 1
        assert self._holders >= 0, "released more often than acquired"
        if self._holders:
            return
        shared = self._running.get(self._loop, {})
        for key in [key for key, instance in shared.items() if instance is self]:
            del shared[key]
        self.pending_replies.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GOODBYE_S)
        self.remoting.close()
        await self.remoting.wait_closed()

    async def _start(self) -> None:
        async with self._starting:
            if self._started:
                return
            if discovery.is_url(self._source):
                found = await asyncio.to_thread(discovery.fetch_addresses, self._source)
                self.nameservers.replace(found)
                self._tasks.append(asyncio.create_task(self._repeat(REDISCOVER_S, self._rediscover)))
            self.routes.on_change.append(self._route_changed)
            self.routes.on_suspect.append(lambda topic: self._from_any_thread(self._suspect, topic))
            for job in (
                self._repeat(self.config.route_poll_s, self.poll_routes),
                self._repeat(self.config.route_poll_s, self._refresh_suspects, self._suspect_due),
                self._repeat(self.config.heartbeat_s, self.heartbeat_now, self._heartbeat_due),
            ):
                self._tasks.append(asyncio.create_task(job))
            self._started = True

    # --- plans and routes --------------------------------------------------------------------

    async def run(self, plan: Plan[T]) -> T:
        """Run a plan over the shared connections."""
        return await self.driver.run(plan)

    async def route(self, topic: str) -> TopicRoutes:
        """The topic's route, fetched if need be and polled from now on; raises NoRoute or NoNameServer."""
        plan = find_route(topic, self.routes, self.nameservers, self.config.call_timeout_s)
        return await self.run(plan)

    async def poll_routes(self) -> None:
        """Refresh every known topic now; listeners (`routes.on_change`) hear of what changed."""
        for topic in self.routes.topics():
            await self.refresh_route(topic)
        self.routes.forget_lost_brokers()

    async def refresh_route(self, topic: str) -> None:
        """Refresh one topic; a failure is logged, the route stays as it was."""
        try:
            timeout_s = self.config.call_timeout_s
            await self.run(refresh_route(topic, self.routes, self.nameservers, timeout_s))
        except RocketeerError as error:
            log.warning("route not refreshed topic=%s reason=%s", topic, error)

    def _suspect(self, topic: str) -> None:
        self._suspects.add(topic)
        self._suspect_due.set()

    async def _refresh_suspects(self) -> None:
        """Brokers of these topics did not answer: perhaps they are elsewhere now."""
        topics, self._suspects = self._suspects, set()
        for topic in topics:
            await self.refresh_route(topic)

    # --- members and heartbeats --------------------------------------------------------------

    def join(self, member: Member) -> None:
        """Put a producer or consumer into the heartbeat; `heartbeat_now` tells the brokers at once."""
        self._members.append(member)
        self._registered_at.clear()

    async def leave(self, member: Member) -> None:
        """Take it out again and tell every broker, unless another member has the same group."""
        if member not in self._members:
            return
        gone = member.heartbeat()
        self._members.remove(member)
        left = [other.heartbeat() for other in self._members]
        producer = gone.producer_group
        consumer = gone.consumer.group if gone.consumer else None
        if producer in {other.producer_group for other in left}:
            producer = None
        if consumer in {other.consumer.group for other in left if other.consumer}:
            consumer = None
        if producer is None and consumer is None:
            return
        await self._run_on_all(
            lambda address: unregister(
                address, self.client_id, GOODBYE_S, producer_group=producer, consumer_group=consumer
            ),
            self._addresses(masters_only=False),
            "goodbye",
        )

    async def heartbeat_now(self) -> None:
        """Tell all brokers now who we are; a broker that does not answer is logged, not raised."""
        heartbeat = self._heartbeat()
        if not heartbeat.producer_groups and not heartbeat.consumers:
            return
        # Producers have nothing to say to slaves.
        addresses = self._addresses(masters_only=not heartbeat.consumers)
        timeout_s = self.config.call_timeout_s
        answered = await self._run_on_all(
            lambda address: send_heartbeat(address, heartbeat, timeout_s), addresses, "heartbeat"
        )
        self._registered_at = answered

    @property
    def reaches_brokers(self) -> bool:
        """Whether one of the brokers of our topics answered the last heartbeat; True while there is none."""
        return bool(self._registered_at) or not self._addresses(masters_only=True)

    async def ensure_registered(self) -> None:
        """Return when every broker of the known routes has heard of us: it can reach us from now on."""
        if not self._registered_at.issuperset(self._addresses(masters_only=True)):
            await self.heartbeat_now()

    def broker_at(self, address: str) -> str:
        """The name of the broker with this address, "" when no route has it."""
        brokers = self.routes.brokers().items()
        return next((name for name, addresses in brokers if address in addresses.values()), "")

    def wake_heartbeat(self) -> None:
        """Have a heartbeat sent soon; from any thread."""
        self._from_any_thread(self._heartbeat_due.set)

    def _heartbeat(self) -> Heartbeat:
        parts = [member.heartbeat() for member in self._members]
        producers = dict.fromkeys(part.producer_group for part in parts if part.producer_group)
        consumers = {part.consumer.group: part.consumer for part in parts if part.consumer}
        return Heartbeat(self.client_id, tuple(producers), tuple(consumers.values()))

    def _addresses(self, *, masters_only: bool) -> list[str]:
        return [
            address
            for addresses in self.routes.brokers().values()
            for broker_id, address in sorted(addresses.items())
            if broker_id == MASTER_ID or not masters_only
        ]

    async def _run_on_all(
        self, make: Callable[[str], Plan[Any]], addresses: list[str], what: str
    ) -> set[str]:
        """Run one plan per address side by side; the addresses where it worked."""
        if not addresses:
            return set()

        async def one(address: str) -> str | None:
            try:
                await self.run(make(address))
            except RocketeerError as error:
                log.warning("%s failed broker=%s reason=%s", what, address, error)
                return None
            return address

        outcomes = await asyncio.gather(*(one(address) for address in addresses))
        return {address for address in outcomes if address is not None}

    # --- what brokers ask of us --------------------------------------------------------------

    def handle_push(self, code: int, handler: PushHandler, *, group: str | None = None) -> None:
        """Answer what brokers ask with this code for one group; without a group, whatever no group takes.

        `handler(command, address)` returns a reply, None, or an awaitable of either.
        """
        if code not in self._pushes:
            self._pushes[code] = {}
            self.remoting.handle(code, self._pushed)
        self._pushes[code][group] = handler

    def drop_push(self, code: int, *, group: str | None = None) -> None:
        """Undo `handle_push`."""
        self._pushes.get(code, {}).pop(group, None)

    def _pushed(self, command: Command, address: str) -> Command | Awaitable[Command | None] | None:
        by_group = self._pushes[command.code]
        ext = command.ext
        group = ext.get("consumerGroup") or ext.get("group") or ext.get("producerGroup")
        handler = by_group.get(group) or by_group.get(None)
        if handler is None:
            raise RocketeerError(f"client {self.client_id} has no group {group!r}")
        return handler(command, address)

    # --- in the background -------------------------------------------------------------------

    async def _repeat(
        self, every_s: float, job: Callable[[], Awaitable[None]], due: asyncio.Event | None = None
    ) -> None:
        """Run the job every so often, and soon after `due` is set; what goes wrong is logged, and goes on."""
        due = due or asyncio.Event()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await due.wait()
            due.clear()
            try:
                await job()
            except Exception:
                log.exception("background work failed client=%s job=%s", self.client_id, job.__name__)
            # Waking up has a limit: a broker that fails every send would have us poll without pause.
            await asyncio.sleep(min(PAUSE_S, every_s))

    async def _rediscover(self) -> None:
        try:
            found = await asyncio.to_thread(discovery.fetch_addresses, self._source)
        except NoNameServer as error:
            log.warning("address server failed client=%s reason=%s", self.client_id, error)
            return
        if self.nameservers.replace(found):
            log.info("name servers changed client=%s addresses=%s", self.client_id, ";".join(found))

    def _route_changed(self, topic: str, route: Route) -> None:
        """From any thread: greet brokers not met yet, so that they know us before the next 30 s are over."""
        if any(broker.master and broker.master not in self._registered_at for broker in route.brokers):
            self.wake_heartbeat()

    def _connection_closed(self, address: str) -> None:
        self._registered_at.discard(address)

    def _from_any_thread(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing to wake
            self._loop.call_soon_threadsafe(call, *arguments)
