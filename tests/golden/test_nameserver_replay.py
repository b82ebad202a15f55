"""The recorded requests to RocketMQ 4.9.8's name server, sent to ours over TCP: the answers must be the same.

Compared are code, remark, fields, serialisation, and the body: routes and clusters byte for byte, the others
as JSON with their lists of topics as sets (in RocketMQ they come in the order of a hash map).

Meant differences, each with its own test below:

- unknown request codes are answered (the real one stays silent)
- 318 refuses unknown keys and values that do not fit (the real one takes them)
- 319 also names `bindAddress`, a key we read from RocketMQ 5
"""

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rocketeer.config import NamesrvConfig, ServerConfig
from rocketeer.config.keys import known_keys
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import TopicConfig
from rocketeer.nameserver.server import NameServer
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.route import decode_route
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, decode, encode, request
from rocketeer.steps import finish

WIRE = Path(__file__).parent / "data" / "wire"
NAMESRV_PORT = 9876


class Exchange(NamedTuple):
    """A recorded request and its answer, if there was one."""

    file: str
    stream: int
    frame: bytes
    asked: Command
    answered: Command | None


def recorded(name: str) -> Iterator[Exchange]:
    """What went to the name server, in order."""
    lines = [json.loads(line) for line in (WIRE / f"{name}.jsonl").read_text().splitlines()]
    ours = [line for line in lines if line.get("port") == NAMESRV_PORT and "frame_hex" in line]
    answers = {
        (line["stream"], line["header"]["opaque"]): decode(bytes.fromhex(line["frame_hex"]))
        for line in ours
        if line["dir"] == "response"
    }
    for line in ours:
        if line["dir"] != "response":
            frame = bytes.fromhex(line["frame_hex"])
            asked = decode(frame)
            yield Exchange(name, line["stream"], frame, asked, answers.get((line["stream"], asked.opaque)))


class Replayer:
    """One connection to our name server for every recorded one."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(self, stream: int, frame: bytes) -> Command:
        if stream not in self._streams:
            self._streams[stream] = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams[stream]
        writer.write(frame)
        prefix = await asyncio.wait_for(reader.readexactly(4), 30)
        return decode(prefix + await reader.readexactly(struct.unpack(">i", prefix)[0]))

    async def replay(self, exchange: Exchange) -> Command | None:
        if not exchange.asked.is_oneway:
            return await self.ask(exchange.stream, exchange.frame)
        # A oneway has no answer; the next answer on its connection shows that it was worked on.
        probe = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        answer = await self.ask(exchange.stream, exchange.frame + encode(probe))
        assert answer.opaque == probe.opaque
        return None

    async def close(self) -> None:
        for _, writer in self._streams.values():
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        self._streams.clear()


@contextlib.asynccontextmanager
async def name_server(folder: Path) -> AsyncIterator[tuple[NameServer, Replayer]]:
    config = NamesrvConfig(
        kv_config_path=folder / "kvConfig.json",
        config_path=folder / "namesrv.properties",
        server=ServerConfig(bind_host="127.0.0.1", listen_port=0),
    )
    server = NameServer(config)
    await server.start()
    replayer = Replayer(server.port)
    try:
        yield server, replayer
    finally:
        await replayer.close()
        await server.stop()


def difference(exchange: Exchange, answer: Command | None) -> str | None:
    """What is not the same in our answer; None when all is."""
    expected = exchange.answered
    if expected is None or answer is None:
        return None if expected is answer else f"expected {expected}, got {answer}"
    for name in ("code", "remark", "opaque", "flag", "ext", "serialize"):
        if getattr(expected, name) != getattr(answer, name):
            return f"{name}: expected {getattr(expected, name)!r}, got {getattr(answer, name)!r}"
    if comparable(exchange.asked.code, expected.body) != comparable(exchange.asked.code, answer.body):
        return f"body: expected {expected.body!r}, got {answer.body!r}"
    return None


def comparable(code: int, body: bytes) -> Any:
    if code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO) or not body:
        return body
    if code == RequestCode.GET_NAMESRV_CONFIG:
        return dict(line.split("=", 1) for line in body.decode().splitlines())
    value = fastjson.loads(body)
    if "topicList" in value:
        value["topicList"] = sorted(value["topicList"])
    return value


# --- whole recordings, in the order they were made ----------------------------------------------------

FIRST_BROKER = [
    "broker_start",
    "namesrv_admin",
    "producer",
    "producer_v1",
    "pull_raw",
    "order_consume",
    "filter_sql",
    "broadcast",
    "pull_consumer",
    "lite_pull",
    "request_reply",
    "request_reply_v1",
    "push_consume",
    "retry_dlq",
    "transaction",
    "trace",
    "serialize_rocketmq_client",
]
ADMIN = [
    "broker_restart",
    "admin_updateTopic",
    "admin_updateTopic_order",
    "admin_topicRoute",
    "admin_topicRoute_missing",
    "admin_topicRoute_list",
    "admin_topicStatus",
    "admin_topicClusterList",
    "admin_topicList",
    "admin_topicList_c",
    "admin_clusterList",
    "admin_clusterList_m",
    "admin_consumerProgress",
    "admin_updateKvConfig",
    "admin_deleteKvConfig",
    "admin_wipeWritePerm",
    "admin_addWritePerm",
    "admin_updateOrderConf_put",
    "admin_updateOrderConf_get",
    "admin_updateOrderConf_delete",
]
HA = ["ha_replication"]
BINARY = ["serialize_rocketmq_broker_start", "serialize_rocketmq_all"]
COMPRESSED = ["broker_start_needregister", "sync_master_no_slave"]
LAST = ["broker_restart_after_crash", "broker_shutdown"]

MEANT = [
    ("namesrv_admin", RequestCode.GET_NAMESRV_CONFIG, b""),
    ("namesrv_admin", RequestCode.UPDATE_NAMESRV_CONFIG, b"noSuchKey=1\n"),
    ("namesrv_admin", 9999, b""),
]

# Set in `namesrv_admin`; every later recording answers brokers with it.
ORDER_TOPIC = request(
    RequestCode.PUT_KV_CONFIG,
    {"namespace": "ORDER_TOPIC_CONFIG", "key": "OrderTopic", "value": "broker-a:4"},
)


def master_of_ha() -> Command:
    """The master was there before its slave's recording began; what it had said, the slave repeats."""
    told = [e.asked.body for e in recorded("ha_replication") if e.asked.code == RequestCode.REGISTER_BROKER]
    header = {
        "brokerId": "0",
        "clusterName": "DefaultCluster",
        "brokerAddr": "127.0.0.1:10911",
        "haServerAddr": "127.0.0.1:10912",
        "brokerName": "broker-a",
    }
    return request(RequestCode.REGISTER_BROKER, header, told[-1])


@pytest.mark.parametrize(
    ("names", "before"),
    [
        (FIRST_BROKER, []),
        (ADMIN, [ORDER_TOPIC]),
        (HA, [ORDER_TOPIC, master_of_ha()]),
        (BINARY, [ORDER_TOPIC]),
        (COMPRESSED, [ORDER_TOPIC]),
        (LAST, [ORDER_TOPIC]),
    ],
    ids=["first broker", "admin", "ha", "binary", "compressed", "last"],
)
async def test_every_recorded_request_gets_the_recorded_answer(
    tmp_path: Path, names: list[str], before: list[Command]
) -> None:
    differences: dict[tuple[str, int, bytes], str] = {}
    async with name_server(tmp_path) as (_, replayer):
        for command in before:
            assert (await replayer.ask(-1, encode(command))).code == ResponseCode.SUCCESS
        for name in names:
            for exchange in recorded(name):
                answer = await replayer.replay(exchange)
                different = difference(exchange, answer)
                if different is not None:
                    differences[name, exchange.asked.code, exchange.asked.body] = different
    meant = [key for key in MEANT if key[0] in names]
    assert {key: text for key, text in differences.items() if key not in meant} == {}
    assert sorted(differences) == sorted(meant)


async def test_old_and_other_clients_get_the_json_they_can_read(tmp_path: Path) -> None:
    exchanges = list(recorded("old_and_other_language_client"))
    registered = next(e for e in exchanges if e.asked.code == RequestCode.REGISTER_BROKER)
    async with name_server(tmp_path) as (_, replayer):
        await replayer.replay(registered)
        for exchange in exchanges:
            assert difference(exchange, await replayer.replay(exchange)) is None


async def test_every_route_ever_recorded_is_written_the_same_way(tmp_path: Path) -> None:
    seen: set[tuple[bytes, int, str]] = set()
    async with name_server(tmp_path) as (server, replayer):
        for path in sorted(WIRE.glob("*.jsonl")):
            for exchange in recorded(path.stem):
                answered = exchange.answered
                if exchange.asked.code != RequestCode.GET_ROUTEINFO_BY_TOPIC or answered is None:
                    continue
                topic = exchange.asked.ext.get("topic", "null")
                case = (answered.body, exchange.asked.version, topic)
                if case in seen:
                    continue
                seen.add(case)
                server.routes.delete_topic(topic)
                if answered.code == ResponseCode.SUCCESS:
                    finish(server.routes.closing(None))
                    put_route(server, topic, answered.body)
                assert difference(exchange, await replayer.replay(exchange)) is None
    assert len(seen) > 30


def put_route(server: NameServer, topic: str, body: bytes) -> None:
    """Make the brokers and queues of a recorded route known."""
    route = decode_route(body)
    for broker in route.brokers:
        for broker_id, address in broker.addresses.items():
            queues = [queue for queue in route.queues if queue.broker_name == broker.broker_name]
            finish(
                server.routes.registering(
                    cluster=broker.cluster,
                    broker_name=broker.broker_name,
                    broker_id=broker_id,
                    address=address,
                    ha_address=None,
                    version=DataVersion(),
                    topics=[
                        TopicConfig(topic, q.read_queues, q.write_queues, q.perm, sys_flag=q.sys_flag)
                        for q in queues
                    ],
                    connection=None,
                    now_ms=0,
                )
            )


# --- the meant differences ----------------------------------------------------------------------------


async def test_an_unknown_code_is_answered(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, replayer):
        answer = await replayer.ask(0, encode(request(9999)))
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 9999 not supported"


async def test_a_bad_change_of_the_settings_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, replayer):

        async def change(text: str) -> Command:
            return await replayer.ask(
                0, encode(request(RequestCode.UPDATE_NAMESRV_CONFIG, body=text.encode()))
            )

        unknown = await change("orderMessageEnable=true\nnoSuchKey=1\n")
        assert (unknown.code, unknown.remark) == (ResponseCode.SYSTEM_ERROR, "unknown key noSuchKey")
        misspelt = await change("orderMesageEnable=true")
        assert misspelt.remark == "unknown key orderMesageEnable; did you mean orderMessageEnable?"
        unfit = await change("orderMessageEnable=yes")
        assert unfit.remark == "orderMessageEnable=yes: expected true or false"
        locked = await change("rocketmqHome=/x")
        assert (locked.code, locked.remark) == (
            ResponseCode.NO_PERMISSION,
            "Can not update config in black list.",
        )
        config = (await replayer.ask(0, encode(request(RequestCode.GET_NAMESRV_CONFIG)))).body.decode()
        assert "orderMessageEnable=false\n" in config
        assert not (tmp_path / "namesrv.properties").exists()


async def test_every_recorded_setting_is_shown_with_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_HOME", "/home/rocketmq")
    code = RequestCode.GET_NAMESRV_CONFIG
    exchange = next(e for e in recorded("admin_getNamesrvConfig") if e.asked.code == code)
    assert exchange.answered is not None
    expected = comparable(code, exchange.answered.body)
    async with name_server(tmp_path) as (_, replayer):
        answer = await replayer.replay(exchange)
    assert answer is not None
    ours = comparable(code, answer.body)
    not_in_4_9 = {"bindAddress", *(key.name for key in known_keys().values() if key.since == "ours")}
    assert set(ours) - set(expected) <= not_in_4_9
    of_this_place = {"kvConfigPath", "configStorePath", "listenPort", *not_in_4_9}
    assert {k: v for k, v in ours.items() if k not in of_this_place} == {
        k: v for k, v in expected.items() if k not in of_this_place
    }
