"""Laws of the running name server, asked over TCP by the real client."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rocketeer.config import NamesrvConfig, ServerConfig
from rocketeer.errors import ConfigError, PortInUse
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import TopicConfig
from rocketeer.nameserver.handlers import NameServerState, handlers
from rocketeer.nameserver.kv_table import KvTable
from rocketeer.nameserver.live_config import NameServerLiveConfig
from rocketeer.nameserver.route_table import RouteTable
from rocketeer.nameserver.server import NameServer
from rocketeer.protocol.bodies.data_version import encode_data_version
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.bodies.register import body_crc32, encode_registration
from rocketeer.protocol.bodies.route import decode_cluster_info, decode_route
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.remoting.client import RemotingClient
from support.clock import ManualClock
from support.tables import encode_topic_table

V1 = DataVersion(1, 1)


def config_in(folder: Path, port: int = 0) -> NamesrvConfig:
    return NamesrvConfig(
        kv_config_path=folder / "kvConfig.json",
        config_path=folder / "namesrv.properties",
        server=ServerConfig(bind_host="127.0.0.1", listen_port=port),
    )


class Asker:
    """A client of one name server."""

    def __init__(self, client: RemotingClient, port: int) -> None:
        self.client = client
        self.address = f"127.0.0.1:{port}"

    async def __call__(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        return await self.client.invoke(self.address, request(code, ext, body))

    async def register(self, name: str = "a", *, port: int = 10911, broker_id: int = 0) -> Command:
        body = encode_registration({"T": TopicConfig("T", 4, 4)}, V1)
        return await self(RequestCode.REGISTER_BROKER, broker(name, port, broker_id, body), body)

    async def route(self, topic: str = "T") -> dict[str, dict[int, str]]:
        answer = await self(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return {}
        return {b.broker_name: dict(b.addresses) for b in decode_route(answer.body).brokers}


def broker(name: str, port: int, broker_id: int = 0, body: bytes = b"") -> dict[str, str]:
    return {
        "brokerName": name,
        "brokerAddr": f"10.0.0.1:{port}",
        "clusterName": "C",
        "haServerAddr": f"10.0.0.1:{port + 1}",
        "brokerId": str(broker_id),
        "bodyCrc32": str(body_crc32(body)) if body else "0",
    }


@contextlib.asynccontextmanager
async def running(
    folder: Path, clock: ManualClock | None = None
) -> AsyncIterator[tuple[NameServer, Callable[[], Asker]]]:
    """A name server, and a way to make clients (each on a connection of its own)."""
    server = NameServer(config_in(folder), clock or ManualClock())
    await server.start()
    clients: list[RemotingClient] = []

    def new_client() -> Asker:
        clients.append(RemotingClient())
        return Asker(clients[-1], server.port)

    try:
        yield server, new_client
    finally:
        for client in clients:
            client.close()
            await client.wait_closed()
        await server.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  (the other side of a socket offers no event)
            await asyncio.sleep(0.001)


def test_the_table_of_handlers_is_what_4_9_8_answers(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    state = NameServerState(
        RouteTable(), KvTable(config.kv_config_path), NameServerLiveConfig(config), ManualClock()
    )
    expected = [*range(100, 107), 205, 206, 216, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327]
    assert sorted(handlers(state)) == expected


async def test_a_broker_is_forgotten_at_once_when_its_connection_closes(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, new_client):
        one, two, client = new_client(), new_client(), new_client()
        await one.register("a", port=1000)
        await two.register("b", port=2000)
        assert await client.route() == {"a": {0: "10.0.0.1:1000"}, "b": {0: "10.0.0.1:2000"}}
        one.client.close()
        await until(lambda: len(server.routes.alive()) == 1)
        assert await client.route() == {"b": {0: "10.0.0.1:2000"}}


async def test_a_silent_broker_is_forgotten_after_120_s_and_its_connection_closed(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as (server, new_client):
        one, two, client = new_client(), new_client(), new_client()
        await one.register("a", port=1000)
        await two.register("b", port=2000)
        clock.advance(ms=100_000)
        beat = await two(RequestCode.QUERY_DATA_VERSION, broker("b", 2000), encode_data_version(V1))
        assert beat.ext == {"changed": "false"}
        clock.advance(ms=20_001)
        await server.scan()
        assert await client.route() == {"b": {0: "10.0.0.1:2000"}}
        await until(lambda: one.address not in one.client._connections)


async def test_a_slave_learns_its_master(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, new_client):
        ask = new_client()
        assert (await ask.register("a", port=1000)).ext == {}
        slave = await ask.register("a", port=2000, broker_id=1)
        assert slave.ext == {"masterAddr": "10.0.0.1:1000", "haServerAddr": "10.0.0.1:1001"}
        assert await ask.route() == {"a": {0: "10.0.0.1:1000", 1: "10.0.0.1:2000"}}
        info = decode_cluster_info((await ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert info.clusters == {"C": ["a"]}


async def test_order_topics_stand_in_routes_once_enabled(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, new_client):
        ask = new_client()
        order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "a:4"}
        assert (await ask(RequestCode.PUT_KV_CONFIG, order)).code == ResponseCode.SUCCESS
        assert decode_kv_table((await ask.register()).body) == {"T": "a:4"}

        async def order_conf() -> str | None:
            answer = await ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
            conf = json.loads(answer.body).get("orderTopicConf")
            assert conf is None or isinstance(conf, str)
            return conf

        assert await order_conf() is None
        enabled = await ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
        assert enabled.code == ResponseCode.SUCCESS
        assert await order_conf() == "a:4"


async def test_a_broker_before_3_0_11_sends_the_bare_table(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, new_client):
        ask = new_client()
        body = encode_topic_table({"T": TopicConfig("T")}, V1)
        command = request(RequestCode.REGISTER_BROKER, broker("a", 1000, body=body), body)
        command.version = 36
        assert (await ask.client.invoke(ask.address, command)).code == ResponseCode.SUCCESS
        assert await ask.route() == {"a": {0: "10.0.0.1:1000"}}


async def test_a_registration_without_a_body_counts_as_alive(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, new_client):
        answer = await new_client()(RequestCode.REGISTER_BROKER, broker("a", 1000))
        assert answer.code == ResponseCode.SUCCESS
        assert server.routes.version_of("10.0.0.1:1000") == DataVersion(0, 0)


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (RequestCode.REGISTER_BROKER, {}, b""),
        (RequestCode.REGISTER_BROKER, broker("a", 1), b"xx"),
        (RequestCode.REGISTER_BROKER, {**broker("a", 1), "compressed": "true"}, b"xx"),
        (RequestCode.REGISTER_BROKER, {**broker("a", 1), "brokerId": "one"}, b""),
        (RequestCode.REGISTER_BROKER, broker("a", 1), b"[" * 100_000),
        (RequestCode.QUERY_DATA_VERSION, broker("a", 1), b""),
        (RequestCode.PUT_KV_CONFIG, {"namespace": "N"}, b""),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"other": "x"}, b""),
        (RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"\xff\xff"),
    ],
)
async def test_bad_requests_get_an_error_and_harm_nobody(
    tmp_path: Path, code: int, ext: dict[str, str], body: bytes
) -> None:
    async with running(tmp_path) as (server, new_client):
        ask = new_client()
        answer = await ask(code, ext, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark
        assert server.routes.alive() == {}
        assert (await ask.register()).code == ResponseCode.SUCCESS


async def test_a_port_in_use_and_a_broken_table_are_said_before_anything_starts(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, _):
        second = NameServer(config_in(tmp_path, server.port), ManualClock())
        with pytest.raises(PortInUse):
            await second.start()
        await second.stop()
    (tmp_path / "kvConfig.json").write_text("not JSON")
    with pytest.raises(ConfigError):
        await NameServer(config_in(tmp_path), ManualClock()).start()


async def test_stop_closes_every_connection(tmp_path: Path) -> None:
    server = NameServer(config_in(tmp_path), ManualClock())
    await server.start()
    async with RemotingClient() as client:
        ask = Asker(client, server.port)
        await ask.register()
        await server.stop()
        await until(lambda: ask.address not in client._connections)
    assert server.routes.alive() == {}
