"""The management requests of a broker behind a port, without a store: `from support.management_broker import management_broker`."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.handlers.clients import CheckExpression, ClientService, refuse_expressions
from rocketeer.broker.locks import QueueLockTable
from rocketeer.broker.management import management_features
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.config import BrokerConfig, BrokerLimits
from rocketeer.model.subscription import TAG, Subscription
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.heartbeat import (
    ConsumerData,
    Heartbeat,
    encode_heartbeat,
)
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, decode, encode, request
from rocketeer.remoting.router import Connection, Router
from rocketeer.remoting.server import RemotingServer
from support.clock import ManualClock

CONFIG = BrokerConfig(broker_name="broker-a")


@dataclass
class Found:
    suggest_slave: bool


@dataclass
class Ends:
    """Queues reduced to their ends: (topic, queue) to (min, max)."""

    ends: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    cold: bool = False
    deleted: list[str] = field(default_factory=list)

    def min_queue_offset(self, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), (0, 0))[0]

    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), (0, 0))[1]

    def offset_by_time(self, topic: str, queue_id: int, store_ms: int) -> int:
        return min(store_ms, self.max_queue_offset(topic, queue_id))

    def earliest_ms(self, topic: str, queue_id: int) -> int:
        return 1_000 if (topic, queue_id) in self.ends else -1

    def get(self, topic: str, queue_id: int, offset: int, max_count: int) -> Found:
        return Found(suggest_slave=self.cold)

    def delete_topic(self, topic: str) -> None:
        self.deleted.append(topic)


class Peer:
    """A raw client: what it asked comes back, what it was told besides is in `notices`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.notices: list[str] = []

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        asked = request(code, ext, body)
        self._writer.write(encode(asked))
        while True:
            came = await self._receive()
            if came.is_response:
                assert came.opaque == asked.opaque
                return came
            self._notice(came)

    async def told(self) -> str:
        """Wait for the next notice; its group."""
        if not self.notices:
            self._notice(await self._receive())
        return self.notices.pop(0)

    async def _receive(self) -> Command:
        async with asyncio.timeout(30):
            prefix = await self._reader.readexactly(4)
            return decode(prefix + await self._reader.readexactly(struct.unpack(">i", prefix)[0]))

    def _notice(self, came: Command) -> None:
        assert came.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert came.is_oneway
        self.notices.append(came.ext["consumerGroup"])

    async def closed(self) -> bool:
        async with asyncio.timeout(30):
            await self._reader.read()
        return self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()


class ManagementBroker:
    """The management features behind a port."""

    def __init__(
        self,
        check_expression: CheckExpression,
        config: BrokerConfig = CONFIG,
        limits: BrokerLimits | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.topics = TopicTable(config, self.clock)
        self.groups = ConsumerGroupTable(config, self.clock)
        self.offsets = ConsumerOffsets()
        self.store = Ends()
        self.announced: list[str] = []
        clients: ClientTable[Connection] = ClientTable()
        self.clients = ClientService(
            clients,
            groups=self.groups,
            topics=self.topics,
            clock=self.clock,
            check_expression=check_expression,
            limits=limits,
        )
        features = management_features(
            clients=self.clients,
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            locks=QueueLockTable(),
            store=self.store,
            clock=self.clock,
            announce=self._announce,
            persist=self._persist,
            limits=limits,
        )
        handlers = {code: handler for feature in features for code, handler in feature.handlers.items()}
        router = Router(handlers, [guard for feature in features for guard in feature.guards])

        def closed(connection: Connection) -> None:
            for forget in (each for feature in features for each in feature.on_close):
                forget(connection)

        self.server = RemotingServer(router.process, on_close=closed)

    async def _announce(self, topic: TopicConfig) -> None:
        self.announced.append(topic.name)

    async def _persist(self) -> None:
        """Persist nothing: there is no disk."""

    async def peer(self) -> Peer:
        return Peer(*await asyncio.open_connection("127.0.0.1", self.server.ports[0]))


@contextlib.asynccontextmanager
async def management_broker(
    check_expression: CheckExpression = refuse_expressions, limits: BrokerLimits | None = None
) -> AsyncIterator[ManagementBroker]:
    made = ManagementBroker(check_expression, limits=limits)
    await made.server.start("127.0.0.1", [0])
    try:
        yield made
    finally:
        await made.server.stop()


def heartbeat(
    client_id: str, *groups: str, topic: str = "T", expression: str = "*", kind: str = TAG
) -> bytes:
    subscription = Subscription(topic, expression, kind)
    consumers = tuple(ConsumerData(group, subscriptions=(subscription,)) for group in groups)
    return encode_heartbeat(Heartbeat(client_id, ("PG",), consumers))


def assert_reply(answer: Command, code: int = 0, remark: str | None = None, **ext: str) -> None:
    assert (answer.code, answer.remark, answer.ext) == (code, remark, ext)
