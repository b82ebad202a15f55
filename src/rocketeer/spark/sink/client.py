"""The connections of one Python worker to the cluster: made by its first task, kept for those after it."""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, NamedTuple, TypeVar

from rocketeer.client.aio.drivers import AsyncDriver
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache, TopicRoutes
from rocketeer.client.core.transient import is_transient
from rocketeer.client.discovery import discover, local_ip
from rocketeer.client.plans.replies import refused
from rocketeer.client.plans.routes import fetch_route
from rocketeer.client.sync.loop_thread import LoopThread
from rocketeer.clock import SystemClock
from rocketeer.errors import NoBroker, NoRoute, RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import OUR_LANGUAGE, request
from rocketeer.protocol.headers.send import GetProducerSequenceHeader
from rocketeer.protocol.versions import version_name
from rocketeer.record.ids import UniqKeys
from rocketeer.remoting.client import RemotingClient
from rocketeer.spark.outages import Outage
from rocketeer.spark.protection import Protection

log = logging.getLogger(__name__)
T = TypeVar("T")

ROUTE_TIMEOUT_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.1
_V5: Final = 412
assert version_name(_V5) == "V5_0_0_SNAPSHOT"


class Make(NamedTuple):
    """What a broker can do beyond RocketMQ 4.9."""

    idempotent: bool
    timed: bool


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
        self.remoting = RemotingClient(tls=security.tls, sign=security.sign)
        self.driver = AsyncDriver(self.remoting)
        self._makes: dict[str, Make] = {}
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
                if not isinstance(error, NoRoute) and not is_transient(error):
                    raise
                pause_s = outage.pause_s()
                if pause_s is None:
                    raise
                log.warning("asked again waited_s=%.1f next_s=%.1f error=%s", outage.seconds, pause_s, error)
            await asyncio.sleep(pause_s)

    async def make(self, address: str, timeout_s: float) -> Make:
        """What the broker at the address is; asked until it has said so. Raises BrokerRefused."""
        known = self._makes.get(address)
        if known is None:
            asked = request(RequestCode.GET_PRODUCER_SEQUENCE, GetProducerSequenceHeader("?", "?", 0))
            reply = await self.remoting.invoke(address, asked, timeout_s)
            ours = reply.language == OUR_LANGUAGE
            # A member of a group that does not lead now knows them as well.
            knows = reply.code == ResponseCode.SUCCESS or (
                ours and reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
            )
            if not knows and reply.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise refused(reply, address)  # too busy, say: it has not told what it is
            known = self._makes[address] = Make(
                idempotent=knows,
                # A broker of 4.x takes the property for any other, and delivers at once.
                timed=ours or reply.version >= _V5,
            )
        return known
