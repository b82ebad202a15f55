"""What the name server can do: one handler per request code, a typed header in, a reply out.

The table in `handlers` is the list of it. Remarks are RocketMQ's own: tools and clients show them.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from rocketeer.clock import Clock
from rocketeer.errors import ConfigError, RequestRefused
from rocketeer.model.data_version import DataVersion
from rocketeer.nameserver.kv_table import ORDER_TOPICS, KvTable
from rocketeer.nameserver.live_config import NameServerLiveConfig
from rocketeer.nameserver.route_table import LimitReached, RouteTable, StaleEpoch
from rocketeer.protocol.bodies.data_version import decode_data_version, encode_data_version
from rocketeer.protocol.bodies.kv import encode_kv_table
from rocketeer.protocol.bodies.properties import decode_settings, encode_settings
from rocketeer.protocol.bodies.register import (
    RegistrationBody,
    body_crc32,
    reading_registration,
    reading_topic_table,
)
from rocketeer.protocol.bodies.route import encoding_cluster_info, encoding_route
from rocketeer.protocol.bodies.topics import encode_topic_list, encoding_topic_list
from rocketeer.protocol.codes import VERSION_STRICT_JSON, RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import Header, decode_header
from rocketeer.protocol.headers.nameserver import (
    AddWritePermReplyHeader,
    BrokerIdentityHeader,
    BrokerNameHeader,
    DeleteTopicInNamesrvHeader,
    GetKvConfigReplyHeader,
    GetKvListHeader,
    GetRouteHeader,
    GetTopicsByClusterHeader,
    KvKeyHeader,
    PutKvConfigHeader,
    QueryDataVersionReplyHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    WipeWritePermReplyHeader,
)
from rocketeer.protocol.texts import FAQ
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import in_slices, run_sliced
from rocketeer.steps import Steps, finish

log = logging.getLogger(__name__)

H = TypeVar("H", bound=Header)

LARGE_BYTES = 1 << 20
NAME_CHARS_MAX = 512
"""Longest name of a topic, broker, cluster or address: twice the longest of a topic that a broker knows."""
FEW_BROKERS = 32
"""The route of a topic on no more brokers is told at once."""
VERSION_REGISTRATION = 37
"""V3_0_11: brokers before it send the bare topic table as the body of 103."""


@dataclass(frozen=True)
class NameServerState:
    """The tables, settings and clock that the handlers work on."""

    routes: RouteTable
    kv: KvTable
    config: NameServerLiveConfig
    clock: Clock

    def sweep(self) -> None:
        """Have what is left of brokers that are gone cleared away."""
        if self.routes.needs_sweep:
            run_sliced(self.routes.sweep())

    def now_ms(self) -> int:
        """Time that no clock adjustment moves: one must not make every broker look dead."""
        return int(self.clock.monotonic_s() * 1000)


def handlers(state: NameServerState) -> dict[int, Handler]:
    """Every code the name server answers; the rest is refused by the router."""
    topic_lists: dict[int, Callable[[], Steps[list[str]]]] = {
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: state.routes.topics,
        RequestCode.GET_UNIT_TOPIC_LIST: state.routes.unit_topics,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: state.routes.unit_sub_topics,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: state.routes.unit_sub_topics_outside_units,
    }
    return {
        RequestCode.PUT_KV_CONFIG: _typed(PutKvConfigHeader, state, put_kv),
        RequestCode.GET_KV_CONFIG: _typed(KvKeyHeader, state, get_kv),
        RequestCode.DELETE_KV_CONFIG: _typed(KvKeyHeader, state, delete_kv),
        RequestCode.GET_KVLIST_BY_NAMESPACE: _typed(GetKvListHeader, state, list_kv),
        RequestCode.REGISTER_BROKER: lambda command, connection: register(state, command, connection),
        RequestCode.UNREGISTER_BROKER: _typed(BrokerIdentityHeader, state, unregister),
        RequestCode.QUERY_DATA_VERSION: _typed(BrokerIdentityHeader, state, query_data_version),
        RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda command, connection: get_route(state, command),
        RequestCode.GET_BROKER_CLUSTER_INFO: lambda command, connection: cluster_info(state, command),
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: _typed(BrokerNameHeader, state, wipe_write_perm),
        RequestCode.ADD_WRITE_PERM_OF_BROKER: _typed(BrokerNameHeader, state, add_write_perm),
        RequestCode.DELETE_TOPIC_IN_NAMESRV: _typed(DeleteTopicInNamesrvHeader, state, delete_topic),
        RequestCode.GET_TOPICS_BY_CLUSTER: _typed(GetTopicsByClusterHeader, state, topics_of_cluster),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: lambda command, connection: system_topics(state, command),
        RequestCode.UPDATE_NAMESRV_CONFIG: lambda command, connection: update_config(state, command),
        RequestCode.GET_NAMESRV_CONFIG: lambda command, connection: get_config(state, command),
        **{code: _listing(topics) for code, topics in topic_lists.items()},
    }


def _typed(
    kind: type[H],
    state: NameServerState,
    answer: Callable[[NameServerState, H, Command], Command | Awaitable[Command]],
) -> Handler:
    def handle(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return answer(state, decode_header(kind, command.ext), command)

    return handle


def _listing(topics: Callable[[], Steps[list[str]]]) -> Handler:
    return lambda command, connection: run_sliced(_listed(command, topics()))


def _listed(command: Command, topics: Steps[list[str]]) -> Steps[Command]:
    return reply(command, body=(yield from encoding_topic_list((yield from topics))))


# --- brokers -----------------------------------------------------------------------------------


def register(
    state: NameServerState, command: Command, connection: Connection
) -> Command | Awaitable[Command]:
    """103: a broker, its topics, its heartbeat. It hears the order topics, and a slave its master."""
    if len(command.body) > LARGE_BYTES:
        return _register_large(state, command, connection)
    return run_sliced(_registering(state, command, connection))


async def _register_large(state: NameServerState, command: Command, connection: Connection) -> Command:
    """103 for a large body: in slices, beginning with the next turn of the loop."""
    return await in_slices(_registering(state, command, connection))


def _registering(state: NameServerState, command: Command, connection: Connection) -> Steps[Command]:
    header = decode_header(RegisterBrokerHeader, command.ext)
    if header.body_crc32 and header.body_crc32 != body_crc32(command.body):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    _check_names((header.cluster_name, header.broker_name, header.broker_address, header.ha_address or ""))
    told = yield from _reading(command, header)
    for name in told.configs:
        if len(name) > NAME_CHARS_MAX:
            _check_names((name,))
        yield
    if connection.closed:  # meanwhile: nobody would forget the broker again
        return reply(command, ResponseCode.SYSTEM_ERROR, "the connection closed")
    if state.routes.version_of(header.broker_address) is None:
        place = header.cluster_name, header.broker_name, header.broker_id, header.broker_address
        log.info("broker registered cluster=%s name=%s id=%d address=%s", *place)
    try:
        master = yield from state.routes.registering(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_address,
            ha_address=header.ha_address,
            version=told.version,
            topics=told.configs.values(),
            connection=connection,
            now_ms=state.now_ms(),
            epoch=header.group_epoch or 0,
        )
    except LimitReached as refusal:
        raise RequestRefused(ResponseCode.SYSTEM_BUSY, str(refusal)) from None
    except StaleEpoch as refusal:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(refusal)) from None
    answer = RegisterBrokerReplyHeader()
    if master is not None:
        answer = RegisterBrokerReplyHeader(ha_address=master.ha_address, master_address=master.address)
    order_topics = state.kv.namespace(ORDER_TOPICS)
    return reply(command, ext=answer, body=b"" if order_topics is None else encode_kv_table(order_topics))


def _check_names(names: Iterable[str]) -> None:
    longest = max(map(len, names))
    if longest > NAME_CHARS_MAX:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"a name in a registration has {longest} characters, at most {NAME_CHARS_MAX} are kept",
        )


def _reading(command: Command, header: RegisterBrokerHeader) -> Steps[RegistrationBody]:
    if not command.body:
        return RegistrationBody({}, DataVersion(0, 0), [])
    if command.version < VERSION_REGISTRATION:
        table = yield from reading_topic_table(command.body)
        return RegistrationBody(table.configs, table.version, [])
    return (yield from reading_registration(command.body, compressed=header.compressed))


def unregister(state: NameServerState, header: BrokerIdentityHeader, command: Command) -> Command:
    """104: a broker says goodbye."""
    name, broker_id, address = header.broker_name, header.broker_id, header.broker_address
    if state.routes.unregister(broker_name=name, broker_id=broker_id, address=address):
        log.info("broker unregistered name=%s id=%d address=%s", name, broker_id, address)
        state.sweep()
    return reply(command)


def query_data_version(state: NameServerState, header: BrokerIdentityHeader, command: Command) -> Command:
    """322: a broker asks whether it must register again; if not, this was its heartbeat."""
    version = decode_data_version(command.body)
    is_known = state.routes.refresh(header.broker_address, version, state.now_ms())
    held = state.routes.version_of(header.broker_address)
    return reply(
        command,
        ext=QueryDataVersionReplyHeader(changed=not is_known),
        body=b"" if held is None else encode_data_version(held),
    )


# --- routes and topics ---------------------------------------------------------------------------


def get_route(state: NameServerState, command: Command) -> Command | Awaitable[Command]:
    """105: where a topic lives."""
    # RocketMQ checks nothing when a request has no fields at all: it looks for the topic "null".
    header = decode_header(GetRouteHeader, command.ext or {"topic": "null"})
    steps = _route_found(state, header, command)
    return finish(steps) if state.routes.broker_count(header.topic) <= FEW_BROKERS else run_sliced(steps)


def _route_found(state: NameServerState, header: GetRouteHeader, command: Command) -> Steps[Command]:
    route = yield from state.routes.routing(header.topic)
    if route is None:
        remark = f"No topic route info in name server for the topic: {header.topic}{FAQ}"
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, remark)
    if state.config.value.order_message_enable:
        route = replace(route, order_conf=state.kv.get(ORDER_TOPICS, header.topic))
    strict = header.strict_json or command.version >= VERSION_STRICT_JSON
    return reply(command, body=(yield from encoding_route(route, strict=strict)))


def cluster_info(state: NameServerState, command: Command) -> Command | Awaitable[Command]:
    """106: every broker and cluster. Broker ids are bare numbers for everyone here, as clients know it."""

    def steps() -> Steps[Command]:
        body = yield from encoding_cluster_info(state.routes.each_broker(), state.routes.clusters())
        return reply(command, body=body)

    return run_sliced(steps())


def topics_of_cluster(
    state: NameServerState, header: GetTopicsByClusterHeader, command: Command
) -> Command | Awaitable[Command]:
    """224: the topics of a cluster."""
    return run_sliced(_listed(command, state.routes.topics_of_cluster(header.cluster)))


def system_topics(state: NameServerState, command: Command) -> Command:
    """304: every cluster and broker name is a topic too; and a broker that knows the other system topics."""
    names: dict[str, None] = {}
    for cluster, brokers in state.routes.clusters().items():
        names.update(dict.fromkeys([cluster, *brokers]))
    return reply(command, body=encode_topic_list(names, state.routes.any_address()))


def delete_topic(state: NameServerState, header: DeleteTopicInNamesrvHeader, command: Command) -> Command:
    """216: delete a topic."""
    state.routes.delete_topic(header.topic, header.cluster_name)
    return reply(command)


def wipe_write_perm(
    state: NameServerState, header: BrokerNameHeader, command: Command
) -> Command | Awaitable[Command]:
    """205: take a broker out of service for writers."""
    return _perm_changed(command, state.routes.wipe_write_perm(header.broker_name), WipeWritePermReplyHeader)


def add_write_perm(
    state: NameServerState, header: BrokerNameHeader, command: Command
) -> Command | Awaitable[Command]:
    """327: put a broker back into service for writers."""
    return _perm_changed(command, state.routes.add_write_perm(header.broker_name), AddWritePermReplyHeader)


def _perm_changed(
    command: Command, changing: Steps[int], kind: Callable[..., Header]
) -> Command | Awaitable[Command]:
    def steps() -> Steps[Command]:
        return reply(command, ext=kind(topics=(yield from changing)))

    return run_sliced(steps())


# --- KV and settings -------------------------------------------------------------------------------


async def put_kv(state: NameServerState, header: PutKvConfigHeader, command: Command) -> Command:
    """100: set a value of the key-value table."""
    await state.kv.put(header.namespace, header.key, header.value)
    return reply(command)


def get_kv(state: NameServerState, header: KvKeyHeader, command: Command) -> Command:
    """101: get a value of the key-value table."""
    value = state.kv.get(header.namespace, header.key)
    if value is None:
        remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
        raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, remark)
    return reply(command, ext=GetKvConfigReplyHeader(value=value))


async def delete_kv(state: NameServerState, header: KvKeyHeader, command: Command) -> Command:
    """102: delete a key of the key-value table, which need not be there."""
    await state.kv.delete(header.namespace, header.key)
    return reply(command)


def list_kv(state: NameServerState, header: GetKvListHeader, command: Command) -> Command:
    """219: the keys and values of a namespace."""
    table = state.kv.namespace(header.namespace)
    if table is None:
        raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}")
    return reply(command, body=encode_kv_table(table))


def update_config(state: NameServerState, command: Command) -> Awaitable[Command]:
    """318: RocketMQ takes any key and any value; here what is unknown or does not fit is refused.

    That is done in the turn of who asks, before there is something to await.
    """
    try:
        changes = decode_settings(command.body)
        if any(state.config.is_locked(key) for key in changes):
            raise RequestRefused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        state.config.check(changes)
    except ConfigError as error:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return _change_config(state, changes, command)


async def _change_config(state: NameServerState, changes: Mapping[str, str], command: Command) -> Command:
    try:
        if changes:
            await state.config.update(changes)
    except ConfigError as error:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    return reply(command)


def get_config(state: NameServerState, command: Command) -> Command:
    """319: every key with its value, a line each."""
    return reply(command, body=encode_settings(state.config.properties()))
