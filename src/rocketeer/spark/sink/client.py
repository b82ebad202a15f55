"""The connections of one Python worker to the cluster: made by its first task, kept for those after it."""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, TypeVar

from rocketeer.admin.context import AdminContext
from rocketeer.client.aio.drivers import AsyncDriver
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache, TopicRoutes
from rocketeer.client.core.transient import passes
from rocketeer.client.discovery import discover, local_ip
from rocketeer.client.plans.capabilities import BrokerCapabilities, broker_capabilities
from rocketeer.client.plans.routes import fetch_route
from rocketeer.client.sync.loop_thread import LoopThread
from rocketeer.clock import SystemClock
from rocketeer.errors import NoBroker, NoRoute, RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.record.ids import UniqKeys
from rocketeer.remoting.client import RemotingClient
from rocketeer.spark.outages import Outage
from rocketeer.spark.protection import Protection

log = logging.getLogger(__name__)
T = TypeVar("T")

ROUTE_TIMEOUT_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.1


class SinkClient:
    """One per worker process and set of name servers; all methods but `of` run on its loop."""

    _clients: ClassVar[dict[tuple[int, str, Protection], "SinkClient"]] = {}
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, nameserver: str, protection: Protection) -> None:
        self.thread = LoopThread.acquire()
        self.nameservers = NameServers(discover(nameserver))
        self.clock = SystemClock()
        self.uniq_keys = UniqKeys(local_ip(), os.getpid(), self.clock)
        self.routes = RouteCache()
        security = protection.security()
        self.driver = AsyncDriver(RemotingClient(tls=security.tls, sign=security.sign))
        self.context = AdminContext(self.nameservers, self.routes, self.clock, ROUTE_TIMEOUT_S)
        self._capabilities: dict[str, BrokerCapabilities] = {}
        self._met: set[str] = set()

    @classmethod
    def of(cls, nameserver: str, protection: Protection | None = None) -> "SinkClient":
        """The process's client; a worker forked from another makes its own."""
        protection = protection or Protection()
        key = (os.getpid(), nameserver, protection)
        with cls._guard:
            client = cls._clients.get(key)
            if client is None:
                client = cls._clients[key] = cls(nameserver, protection)
            return client

    async def route(self, topic: str, *, fresh: bool = False) -> TopicRoutes:
        """Where the topic is; raises NoRoute for one that does not exist."""
        known = self.routes.get(topic)
        if known is not None and not fresh:
            return known
        route = await self.driver.run(fetch_route(topic, self.nameservers, ROUTE_TIMEOUT_S))
        if route is None:
            self.routes.drop(topic)
            raise NoRoute(topic, self.nameservers.addresses)
        self._met.add(topic)
        return self.routes.put(topic, route)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that can be written to now, sorted."""
        known = await self.route(topic, fresh=True)
        if not known.publish:
            raise NoBroker(topic, None, "has no queue that can be written to and whose master is up")
        return known.publish

    def expect(self, topic: str) -> None:
        """The topic is known to exist: when it has no route, its broker is away, and is waited for."""
        self._met.add(topic)

    async def with_retries(self, ask: Callable[[], Awaitable[T]], limit_s: float) -> T:
        """Ask again while servers are away. A topic nobody has ever seen is not waited for: it does not exist."""
        outage = Outage(limit_s, FIRST_PAUSE_S)
        while True:
            try:
                return await ask()
            except RocketeerError as error:
                if isinstance(error, NoRoute) and error.topic not in self._met:
                    raise
                pause_s = outage.pause_s() if passes(error) else None
                if pause_s is None:
                    raise
                log.warning("asked again waited_s=%.1f next_s=%.1f error=%s", outage.seconds, pause_s, error)
            await asyncio.sleep(pause_s)

    async def capabilities(self, address: str, timeout_s: float) -> BrokerCapabilities:
        """What the broker at the address can do; asked until it has said so. Raises BrokerRefused."""
        known = self._capabilities.get(address)
        if known is None:
            known = self._capabilities[address] = await self.driver.run(
                broker_capabilities(address, timeout_s)
            )
        return known
