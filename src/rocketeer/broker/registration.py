"""Keeps every name server informed of this broker and its topics, from start to stop.

Full registrations go out at start, every 30 s, and (oneway, several in one) when topics appear by themselves.
A topic that an administrator changed goes alone, and its handler waits for it. A name server that does not
answer, or that has no room for some of our topics, is logged once, tried again every few seconds, and never holds up
the others.

A broker with very many topics tells them in parts, each small enough for any name server: name servers add what
they are told to what they know when the data version is another than before, so all parts but the last carry versions
of their own, and the last one ours. From then on they are told only what is new, and asked every 30 s (322, which
is a heartbeat too) whether our version is the one they know.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rocketeer.broker.feature import Feature, LeaderRegistration, Periodic
from rocketeer.broker.topics import ChangeKind, TopicChange, TopicTable
from rocketeer.config import BrokerConfig
from rocketeer.errors import ProtocolError, RemotingError
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import Perm, TopicConfig
from rocketeer.protocol.bodies.data_version import decode_data_version, encode_data_version
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.bodies.register import body_crc32, encode_registration, join_registration
from rocketeer.protocol.bodies.route import decode_cluster_info
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers.base import Header, decode_header
from rocketeer.protocol.headers.nameserver import (
    BrokerIdentityHeader,
    QueryDataVersionReplyHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
)
from rocketeer.remoting.slices import in_slices

log = logging.getLogger(__name__)

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 10_000, 60_000
RETRY_S = 5.0
LEADER_S = 5.0
"""Often: a name server that took a leader of the past in our place is told better."""
UNREGISTER_TIMEOUT_S = 3.0
PART_TOPICS = 2_000
"""How many topics one registration request carries at most."""
PART_BYTES = 512 << 10
"""What they take at most: any name server reads as much."""
CREATED_PAUSE_S = 0.1
"""Topics created within this time of the last announcement share the next one."""


class RemoteCaller(Protocol):
    """What a broker asks of its remoting client."""

    async def invoke(self, address: str, command: Command, timeout_s: float) -> Command: ...

    async def oneway(self, address: str, command: Command, timeout_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """How this broker introduces itself."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str


@dataclass(slots=True)
class _NameServer:
    address: str
    reachable: bool = True
    refusal: str = ""
    """What the name server said when it did not take all that it was told; empty: it knows all of our topics."""


class Registration:
    """Registers one broker with all its name servers, from `start` to `stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        identity: BrokerIdentity,
        *,
        client: RemoteCaller,
        topics: TopicTable,
        leading: LeaderRegistration | None = None,
    ) -> None:
        self._config = config
        self._identity = identity
        self._client = client
        self._topics = topics
        self._leading = leading
        self._servers = [_NameServer(address) for address in config.namesrv_addresses]
        self._timeout_s = config.register_timeout_ms / 1000
        self._tasks: set[asyncio.Task[None]] = set()
        self._created: dict[str, None] = {}
        self._next_created_s = 0.0
        self._created_timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self.permission = config.permission
        self.on_master: list[Callable[[str, str], None]] = []
        """Told (address, HA address) of the master of our broker name, whenever a name server names one."""

    def feature(self) -> Feature:
        interval_ms = max(INTERVAL_MS_MIN, min(self._config.register_interval_ms, INTERVAL_MS_MAX))
        services = [
            Periodic("register", interval_ms / 1000, self.refresh),
            Periodic("register with lost name servers", RETRY_S, self.retry_lost),
        ]
        if self._leading is not None:
            services.append(Periodic("register as leader", LEADER_S, self.refresh))
        return Feature("registration", services=services)

    @property
    def _may_register(self) -> bool:
        return not self._stopped and (self._leading is None or self._leading.is_current())

    def set_permission(self, permission: int) -> None:
        """What the broker may be used for from now on; every name server hears of it."""
        self.permission = permission
        self._spawn(self.refresh_all())

    async def refresh_all(self) -> None:
        await self._register(self._servers)

    @property
    def lost(self) -> list[str]:
        """The name servers that did not answer last time."""
        return [server.address for server in self._servers if not server.reachable]

    async def start(self) -> None:
        """Register for the first time; returns when every name server has answered or its time is over."""
        self._topics.on_change.append(self._topic_changed)
        await self._register(self._servers)

    async def stop(self) -> None:
        """Take our leave of every name server that can be reached."""
        if self._stopped:
            return
        self._stopped = True
        if self._created_timer is not None:
            self._created_timer.cancel()
        for task in self._tasks:
            task.cancel()
        await _all(self._unregister(server) for server in self._servers if server.reachable)

    async def _unregister(self, server: _NameServer) -> None:
        """Take leave of one name server, unless another leader has our place there by now: a leader that was paused
        leaves late, and RocketMQ's name server forgets whoever has our id."""
        if self._leading is not None and await self._is_replaced(server):
            log.info("place taken by the next leader name_server=%s", server.address)
        elif server.reachable:
            header = self._identity_header()
            await self._ask(server, RequestCode.UNREGISTER_BROKER, header, b"", UNREGISTER_TIMEOUT_S)

    async def _is_replaced(self, server: _NameServer) -> bool:
        """Whether somebody else has our name and id there; False also when it does not say."""
        us = self._identity
        try:
            command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
            answer = await self._client.invoke(server.address, command, UNREGISTER_TIMEOUT_S)
            known = decode_cluster_info(answer.body).brokers if answer.code == ResponseCode.SUCCESS else {}
        except RemotingError as error:
            self._lost(server, str(error))
            return False
        except ProtocolError as error:
            log.warning("cluster info unreadable name_server=%s error=%s", server.address, error)
            return False
        group = known.get(us.broker_name)
        address = None if group is None else group.addresses.get(us.broker_id)
        return address is not None and address != us.address

    async def refresh(self) -> None:
        """The regular registration; with forceRegister=false only where our data version is not known yet."""
        if self._config.force_register and not self._is_large:
            await self._register(self._servers)
        else:
            await _all(self._register_if_changed(server) for server in self._servers)

    async def retry_lost(self) -> None:
        """Register again where the last attempt failed or was refused; very many topics wait for the regular
        registration."""
        await self._register(
            [
                server
                for server in self._servers
                if not server.reachable or (server.refusal and not self._is_large)
            ]
        )

    async def announce(self, topic: TopicConfig) -> None:
        """Tell of one changed topic; returns when the reachable name servers know it."""
        await self._register([server for server in self._servers if server.reachable], [topic.name])

    def connection_lost(self, address: str) -> None:
        """A name server closed its connection: it forgot us, so it is told again at the next retry."""
        for server in self._servers:
            if server.address == address and not self._stopped:
                self._lost(server, "the connection closed")

    # --- topics that appear by themselves ----------------------------------------------------

    def _topic_changed(self, change: TopicChange) -> None:
        if change.kind is not ChangeKind.CREATED or self._stopped:
            return
        self._created[change.topic.name] = None
        if self._created_timer is not None:
            return
        loop = asyncio.get_running_loop()
        self._created_timer = loop.call_at(max(loop.time(), self._next_created_s), self._announce_created)

    def _announce_created(self) -> None:
        self._created_timer = None
        self._next_created_s = asyncio.get_running_loop().time() + CREATED_PAUSE_S
        created, self._created = self._created, {}
        parts = list(self._parts(created if self._is_large else self._topics.configs))
        for server in self._servers:
            if server.reachable and self._may_register:
                self._spawn(self._tell(server, RequestCode.REGISTER_BROKER, parts))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- one name server ---------------------------------------------------------------------

    @property
    def _is_large(self) -> bool:
        return len(self._topics.configs) > PART_TOPICS or self._topics.all_entries_bytes > PART_BYTES

    async def _register(self, servers: Iterable[_NameServer], topics: Iterable[str] | None = None) -> None:
        servers = list(servers)
        if not servers or not self._may_register:  # nobody who took leave says hello again
            return
        is_whole = topics is None
        names = self._topics.configs if topics is None else topics
        if is_whole and self._is_large:  # the parts take much memory, all of them together
            asked = [self._tell_parts(server, self._parts(names), is_whole) for server in servers]
        else:
            parts = list(self._parts(names))
            asked = [self._tell_parts(server, parts, is_whole) for server in servers]
        replies = await asyncio.gather(*asked)
        # As in RocketMQ one answer decides, whichever name servers disagree; ours is always the first listed.
        answer = next((reply for reply in replies if reply is not None), None)
        if answer is not None and not self._stopped:
            await self._apply(answer)

    def _parts(self, topics: Iterable[str]) -> Iterator[tuple[Header, bytes]]:
        """Encode the registration of these topics in portions that each fit a request."""
        version = self._topics.version
        names = list(topics)
        number = start = 0
        while start < len(names) or not number:
            end = self._part_end(names, start)
            number += 1
            part_version = version if end == len(names) else DataVersion(version.timestamp, -number)
            yield self._registration(names[start:end], part_version)
            start = end

    def _part_end(self, names: list[str], start: int) -> int:
        """Where the portion ends that begins there: it is small enough for one request."""
        taken = 0
        for end in range(start, min(start + PART_TOPICS, len(names))):
            taken += self._topics.entry_bytes(names[end])
            if taken > PART_BYTES and end > start:
                return end
        return min(start + PART_TOPICS, len(names))

    async def _tell_parts(
        self, server: _NameServer, parts: Iterable[tuple[Header, bytes]], is_whole: bool
    ) -> Command | None:
        """Send the portions to one name server; its last answer, or None if it took none. `is_whole`: they are all
        topics."""
        last: Command | None = None
        refused = False
        for part in parts:
            answer = await self._ask(server, RequestCode.REGISTER_BROKER, *part, self._timeout_s)
            if self._stopped or not server.reachable:
                return None
            # One of them may have a topic that finds no room: what is known of the others' changes all the same.
            refused = refused or answer is None
            last = answer or last
        if is_whole and server.refusal and not refused:
            log.info("name server takes all that it is told again address=%s", server.address)
            server.refusal = ""
        return last

    async def _register_if_changed(self, server: _NameServer) -> None:
        ours = self._topics.version
        who, body = self._identity_header(), encode_data_version(ours)
        answer = await self._ask(server, RequestCode.QUERY_DATA_VERSION, who, body, self._timeout_s)
        if answer is None or server.refusal or _version_differs(answer, ours):
            await self._register([server])
        elif self._is_large:  # it knows them all: what it has to tell us comes with a registration only
            await self._register([server], ())

    async def _ask(
        self, server: _NameServer, code: int, header: Header, body: bytes, timeout_s: float
    ) -> Command | None:
        """The answer, or None when there was none or it was a refusal; never raises, never takes longer."""
        try:
            answer = await self._client.invoke(server.address, request(code, header, body), timeout_s)
        except RemotingError as error:
            self._lost(server, str(error))
            return None
        if not server.reachable:
            log.info("name server reachable again address=%s", server.address)
            server.reachable = True
        if answer.code != ResponseCode.SUCCESS:
            self._refused(server, f"request {code} refused with code {answer.code}: {answer.remark}")
            return None
        return answer

    async def _tell(self, server: _NameServer, code: int, parts: Iterable[tuple[Header, bytes]]) -> None:
        try:
            for header, body in parts:
                command = request(code, header, body, oneway=True)
                await self._client.oneway(server.address, command, self._timeout_s)
        except RemotingError as error:
            self._lost(server, str(error))

    def _lost(self, server: _NameServer, why: str) -> None:
        if server.reachable:
            log.warning("name server lost address=%s reason=%s", server.address, why)
            server.reachable = False

    @staticmethod
    def _refused(server: _NameServer, why: str) -> None:
        if server.refusal != why:
            log.warning("refused by a name server address=%s reason=%s", server.address, why)
            server.refusal = why

    # --- what is said and heard --------------------------------------------------------------

    def _registration(
        self, topics: Iterable[str], version: DataVersion | None = None
    ) -> tuple[Header, bytes]:
        us, compressed = self._identity, self._config.compressed_register
        version = version or self._topics.version
        if compressed or not self._may_all:
            known = self._topics.configs
            configs = {name: known[name] for name in topics if name in known}
            body = encode_registration(self._visible(configs), version, compressed=compressed)
        else:
            body = join_registration(self._topics.entries(topics), version)
        header = RegisterBrokerHeader(
            broker_name=us.broker_name,
            broker_address=us.address,
            cluster_name=us.cluster,
            broker_id=us.broker_id,
            ha_address=us.ha_address,
            compressed=compressed,
            body_crc32=body_crc32(body),
            group_epoch=None if self._leading is None else self._leading.epoch,
        )
        return header, body

    @property
    def _may_all(self) -> bool:
        return bool(self.permission & Perm.READ and self.permission & Perm.WRITE)

    def _identity_header(self) -> BrokerIdentityHeader:
        us = self._identity
        return BrokerIdentityHeader(
            broker_name=us.broker_name,
            broker_address=us.address,
            cluster_name=us.cluster,
            broker_id=us.broker_id,
        )

    def _visible(self, topics: Mapping[str, TopicConfig]) -> Mapping[str, TopicConfig]:
        """The topics as they are registered: with the broker's own permission if that is less than read and write."""
        if self._may_all:
            return topics
        return {
            name: TopicConfig(name, topic.read_queues, topic.write_queues, self.permission)
            for name, topic in topics.items()
        }

    async def _apply(self, answer: Command) -> None:
        """What a name server tells us in return: our master, and which topics are order topics."""
        try:
            header = decode_header(RegisterBrokerReplyHeader, answer.ext)
            order_topics = decode_kv_table(answer.body) if answer.body else None
        except ProtocolError as error:
            log.warning("registration reply unreadable error=%s", error)
            return
        if header.master_address:
            for told in self.on_master:
                told(header.master_address, header.ha_address or "")
        if order_topics is not None:
            await in_slices(self._topics.ordering(order_topics))


def _version_differs(answer: Command, ours: DataVersion) -> bool:
    try:
        changed = decode_header(QueryDataVersionReplyHeader, answer.ext).changed
        return changed or (bool(answer.body) and decode_data_version(answer.body) != ours)
    except ProtocolError as error:
        log.warning("data version unreadable error=%s", error)
        return True


async def _all(work: Iterable[Awaitable[object]]) -> None:
    await asyncio.gather(*work)
