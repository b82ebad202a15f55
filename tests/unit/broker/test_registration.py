"""Laws of the registration: every name server knows us and our topics, whatever happens to the others."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.feature import LeaderRegistration
from rocketeer.broker.registration import PART_BYTES, PART_TOPICS, BrokerIdentity, Registration
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import SystemClock
from rocketeer.config import BrokerConfig, NamesrvConfig, ServerConfig
from rocketeer.config.limits import NamesrvLimits
from rocketeer.model.route import BrokerData
from rocketeer.model.topic import TopicConfig
from rocketeer.nameserver.server import NameServer
from rocketeer.protocol.bodies.data_version import encode_data_version
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.fastjson import loads
from rocketeer.remoting.client import RemotingClient
from rocketeer.steps import finish
from support.bodies import decode_registration, encode_cluster_info
from support.name_servers import Listener

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "wire"
US = BrokerIdentity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")


def config(*addresses: str, **settings: Any) -> BrokerConfig:
    return BrokerConfig(broker_name="broker-a", namesrv_addresses=addresses, **settings)


@contextlib.asynccontextmanager
async def name_server(
    folder: Path, port: int = 0, limits: NamesrvLimits | None = None
) -> AsyncIterator[NameServer]:
    settings = NamesrvConfig(
        limits=limits or NamesrvLimits(),
        kv_config_path=folder / "kvConfig.json",
        config_path=folder / "namesrv.properties",
        server=ServerConfig(bind_host="127.0.0.1", listen_port=port),
    )
    server = NameServer(settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def registration(
    settings: BrokerConfig, leading: LeaderRegistration | None = None
) -> AsyncIterator[tuple[Registration, TopicTable]]:
    topics = TopicTable(settings, SystemClock())
    client = RemotingClient()
    made = Registration(settings, US, client=client, topics=topics, leading=leading)
    client.on_close.append(made.connection_lost)
    async with client:
        yield made, topics
        await made.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 what is awaited happens in another server
            await asyncio.sleep(0.002)


def recorded(name: str, code: int) -> Iterator[dict[str, Any]]:
    for line in (GOLDEN / f"{name}.jsonl").open():
        frame = json.loads(line)
        if frame["header"]["code"] == code and frame["dir"] != "response":
            yield frame


# --- against real name servers ---------------------------------------------------------------


async def test_every_name_server_knows_us_after_start_and_none_after_stop(tmp_path: Path) -> None:
    async with name_server(tmp_path / "a") as one, name_server(tmp_path / "b") as two:
        settings = config(f"127.0.0.1:{one.port}", f"127.0.0.1:{two.port}")
        async with registration(settings) as (ours, topics):
            await ours.start()
            for server in (one, two):
                assert set(finish(server.routes.topics())) == set(topics.configs)
                assert server.routes.version_of(US.address) == topics.version
            await ours.stop()
            for server in (one, two):
                assert not dict(server.routes.each_broker())


async def test_a_created_topic_reaches_the_name_servers_by_itself(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as server,
        registration(config(f"127.0.0.1:{server.port}")) as (ours, topics),
    ):
        await ours.start()
        names = [f"T{number}" for number in range(50)]
        for name in names:
            topics.create_from_default(name, "TBW102", "remote", 4)
        await until(lambda: set(names) <= set(finish(server.routes.topics())))
        topics.create_in_send_back("%RETRY%G", 1)
        await until(lambda: "%RETRY%G" in finish(server.routes.topics()))


async def test_an_announced_topic_is_known_when_the_call_returns(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as server,
        registration(config(f"127.0.0.1:{server.port}")) as (ours, topics),
    ):
        await ours.start()
        topics.put(TopicConfig("T", 3, 3))
        await ours.announce(topics.configs["T"])
        route = finish(server.routes.routing("T"))
        assert route is not None
        assert route.queues[0].write_queues == 3


async def test_a_name_server_that_comes_back_learns_everything_again(tmp_path: Path) -> None:
    async with name_server(tmp_path) as first:
        port = first.port
        scope = registration(config(f"127.0.0.1:{port}"))
        ours, topics = await scope.__aenter__()
        await ours.start()
    async with name_server(tmp_path, port) as second:
        await until(lambda: bool(ours.lost))
        await ours.retry_lost()
        assert set(finish(second.routes.topics())) == set(topics.configs)
        await scope.__aexit__(None, None, None)


async def test_a_dead_name_server_is_logged_once_and_holds_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dead = "127.0.0.1:1"
    async with name_server(tmp_path) as server:
        with caplog.at_level(logging.WARNING, "rocketeer.broker.registration"):
            async with registration(config(dead, f"127.0.0.1:{server.port}")) as (ours, topics):
                async with asyncio.timeout(60):
                    await ours.start()
                    await ours.refresh()
                    await ours.retry_lost()
                    topics.put(TopicConfig("T"))
                    await ours.announce(topics.configs["T"])
                assert "T" in finish(server.routes.topics())
                assert ours.lost == [dead]
    assert len([record for record in caplog.records if dead in record.getMessage()]) == 1


def perm_of(server: NameServer, topic: str) -> int | None:
    route = finish(server.routes.routing(topic))
    return None if route is None else int(route.queues[0].perm)


@pytest.mark.parametrize("many", [0, 2 * PART_TOPICS], ids=["in one", "in parts"])
async def test_a_name_server_without_room_for_a_topic_hears_of_the_others_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, many: int
) -> None:
    known = len(TopicTable(config(), SystemClock()).configs) + many + 1
    async with (
        name_server(tmp_path, limits=NamesrvLimits(topics=known)) as server,
        registration(config(f"127.0.0.1:{server.port}")) as (ours, topics),
    ):
        fill(topics, many)
        topics.put(TopicConfig("old"))
        await ours.start()
        gone, *others = topics.configs
        assert perm_of(server, gone) is not None
        topics.delete(gone)
        topics.put(TopicConfig("new"))
        for name in others:  # behind it
            topics.configs[name] = topics.configs.pop(name)
        with caplog.at_level(logging.INFO, "rocketeer.broker.registration"):
            for perm in (4, 2, 6):
                topics.put(TopicConfig("old", perm=perm))
                await ours.refresh()
                await ours.retry_lost()
                assert perm_of(server, "old") == perm
                assert perm_of(server, "new") is None
            topics.put(TopicConfig("old", perm=4))
            await ours.announce(topics.configs["old"])
            assert perm_of(server, "old") == 4, "it is told of changes"
            await ours.retry_lost()
            (said,) = caplog.records
            assert "limitRouteTopics" in said.getMessage()
            server.routes.delete_topic(gone)
            await ours.refresh()
            await ours.retry_lost()
            assert perm_of(server, "new") == 6
            assert len(caplog.records) == 2
        await ours.stop()
        assert not dict(server.routes.each_broker()), "a goodbye"


async def test_the_order_configuration_of_the_name_server_makes_order_topics(tmp_path: Path) -> None:
    async with Listener() as listener, registration(config(listener.address)) as (ours, topics):
        topics.put(TopicConfig("OrderTopic"))
        topics.put(TopicConfig("Former", order=True))
        await ours.start()
        assert not topics.configs["OrderTopic"].order, "a reply without a body says nothing"
        assert topics.configs["Former"].order
        listener.answers[103] = ({}, b'{"table":{"OrderTopic":"broker-a:4"}}')
        await ours.refresh()
        assert topics.configs["OrderTopic"].order
        assert not topics.configs["Former"].order
        listener.answers[103] = ({}, b"not json")
        await ours.refresh()
        assert topics.configs["OrderTopic"].order


# --- what is said, against the recordings ----------------------------------------------------


def same_request(ours: Command, frame: dict[str, Any]) -> None:
    theirs = frame["header"]["extFields"]
    assert {key: ours.ext[key] for key in theirs if key != "bodyCrc32"} == {
        key: value for key, value in theirs.items() if key != "bodyCrc32"
    }
    assert set(ours.ext) == set(theirs)


async def test_the_first_registration_is_the_recorded_one() -> None:
    frame = next(recorded("broker_start", RequestCode.REGISTER_BROKER))
    async with (
        Listener() as listener,
        registration(config(listener.address, trace_topic_enable=True)) as (ours, _),
    ):
        await ours.start()
        (command,) = listener.heard
        same_request(command, frame)
        body, theirs = loads(command.body), loads(bytes.fromhex(frame["body_hex"]))
        for side in (body, theirs):
            side["topicConfigSerializeWrapper"]["dataVersion"].pop("timestamp")
        assert body == theirs
        assert not command.is_oneway


async def test_automatic_creation_is_told_oneway_with_all_topics_and_an_update_alone() -> None:
    async with Listener() as listener, registration(config(listener.address)) as (ours, topics):
        await ours.start()
        topics.create_in_send_back("%RETRY%G", 1)
        await until(lambda: len(listener.heard) == 2)
        topics.put(TopicConfig("T", 1, 1, 4))
        await ours.announce(topics.configs["T"])
        _, created, updated = listener.heard
        assert created.is_oneway
        told = loads(created.body)["topicConfigSerializeWrapper"]["topicConfigTable"]
        assert set(told) == set(topics.configs) - {"T"}
        assert not updated.is_oneway
        told = loads(updated.body)["topicConfigSerializeWrapper"]["topicConfigTable"]
        assert list(told) == ["T"]


async def test_the_goodbye_is_the_recorded_one() -> None:
    frame = next(recorded("broker_shutdown", RequestCode.UNREGISTER_BROKER))
    async with Listener() as listener, registration(config(listener.address)) as (ours, topics):
        await ours.start()
        await ours.stop()
        same_request(listener.heard[-1], frame)
        topics.create_in_send_back("%RETRY%G", 1)
        await ours.refresh()
        await ours.announce(topics.configs["%RETRY%G"])
        assert listener.codes() == [103, 104], "nothing after it"


@pytest.mark.parametrize(
    ("masters", "codes"),
    [
        ({0: "127.0.0.1:20911", 1: US.address}, [103, 106]),
        ({0: US.address, 2: "127.0.0.1:20911"}, [103, 106, 104]),
        ({2: "127.0.0.1:20911"}, [103, 106, 104]),
        (None, [103, 106, 104]),
    ],
    ids=["another leads", "we are named", "nobody is", "unreadable"],
)
async def test_a_leader_that_leaves_late_does_not_take_the_next_one_along(
    masters: dict[int, str] | None, codes: list[int]
) -> None:
    """RocketMQ's name server forgets whoever has the id that says goodbye: here that of the next leader."""
    async with Listener() as listener:
        if masters is not None:
            data = BrokerData("DefaultCluster", "broker-a", masters)
            listener.answers[106] = {}, encode_cluster_info({"broker-a": data}, {})
        leader = LeaderRegistration(3, lambda: True)
        async with registration(config(listener.address), leader) as (ours, _):
            await ours.start()
            await ours.stop()
            assert listener.codes() == codes


async def test_a_leader_whose_lease_is_over_tells_nobody_that_it_leads() -> None:
    is_current = True
    leading = LeaderRegistration(3, lambda: is_current)
    async with Listener() as listener, registration(config(listener.address), leading) as (ours, topics):
        await ours.start()
        assert listener.codes() == [103]
        is_current = False
        await ours.refresh()
        topics.put(TopicConfig("T"))
        await ours.announce(topics.configs["T"])
        assert listener.codes() == [103]


async def test_without_force_a_name_server_that_knows_our_version_is_left_alone() -> None:
    frame = next(recorded("ha_replication", RequestCode.QUERY_DATA_VERSION))
    async with Listener() as listener:
        settings = config(listener.address, force_register=False, compressed_register=True)
        async with registration(settings) as (ours, _):
            await ours.start()
            listener.answers[322] = ({"changed": "false"}, b"")
            await ours.refresh()
            assert listener.codes() == [103, 322]
            assert set(listener.heard[1].ext) == set(frame["header"]["extFields"])
            assert set(loads(listener.heard[1].body)) == {"counter", "timestamp"}
            listener.answers[322] = ({"changed": "false"}, b'{"counter":77,"timestamp":1}')
            await ours.refresh()
            listener.answers[322] = ({"changed": "true"}, b"")
            await ours.refresh()
            listener.answers[322] = ({}, b"")
            await ours.refresh()
            assert listener.codes() == [103, 322, 322, 103, 322, 103, 322, 103]
            assert listener.heard[0].ext["compressed"] == "true"


async def test_a_broker_that_may_not_be_written_says_so_on_every_topic() -> None:
    async with Listener() as listener, registration(config(listener.address, permission=4)) as (ours, _):
        await ours.start()
        told = loads(listener.heard[0].body)["topicConfigSerializeWrapper"]["topicConfigTable"]
        assert {topic["perm"] for topic in told.values()} == {4}


async def test_a_slave_hears_who_its_master_is() -> None:
    async with Listener() as listener:
        listener.answers[103] = ({"masterAddr": "1.2.3.4:10911", "haServerAddr": "1.2.3.4:10912"}, b"")
        async with registration(config(listener.address)) as (ours, _):
            masters: list[tuple[str, str]] = []
            ours.on_master.append(lambda *master: masters.append(master))
            await ours.start()
            assert masters == [("1.2.3.4:10911", "1.2.3.4:10912")]


def test_the_interval_keeps_to_rocketmqs_bounds() -> None:
    for asked_ms, interval_s in ((1_000, 10), (30_000, 30), (300_000, 60)):
        settings = config(register_interval_ms=asked_ms)
        ours = Registration(settings, US, client=RemotingClient(), topics=TopicTable(settings, SystemClock()))
        assert ours.feature().services[0].interval_s == interval_s


# --- very many topics --------------------------------------------------------------------------


def fill(topics: TopicTable, count: int) -> None:
    for number in range(count):
        topics.put(TopicConfig(f"many-{number:06}", 4, 4))


async def test_very_many_topics_are_told_in_parts_that_fit_any_frame(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as server,
        registration(config(f"127.0.0.1:{server.port}")) as (ours, topics),
    ):
        fill(topics, 3 * PART_TOPICS)
        await ours.start()
        assert set(finish(server.routes.topics())) == set(topics.configs)
        assert server.routes.version_of(US.address) == topics.version
        topics.create_in_send_back("%RETRY%G", 1)
        await until(lambda: finish(server.routes.routing("%RETRY%G")) is not None)
        assert server.routes.version_of(US.address) == topics.version
        topics.put(TopicConfig("many-000007", 9, 9))
        await ours.announce(topics.configs["many-000007"])
        assert len(finish(server.routes.topics())) == len(topics.configs)


async def test_all_parts_but_the_last_carry_versions_of_their_own_and_none_repeats() -> None:
    async with Listener() as listener, registration(config(listener.address)) as (ours, topics):
        fill(topics, 2 * PART_TOPICS)
        await ours.start()
        told = [decode_registration(command.body) for command in listener.heard]
        assert len(told) == 3
        assert max(len(command.body) for command in listener.heard) < 1 << 20
        assert {name for part in told for name in part.configs} == set(topics.configs)
        assert [part.version == topics.version for part in told] == [False, False, True]
        assert len({part.version for part in told}) == 3


async def test_a_name_server_that_knows_very_many_topics_is_only_asked_and_told_what_is_new() -> None:
    async with Listener() as listener, registration(config(listener.address)) as (ours, topics):
        fill(topics, 2 * PART_TOPICS)
        await ours.start()
        listener.heard.clear()
        listener.answers[322] = {"changed": "false"}, encode_data_version(topics.version)
        await ours.refresh()
        assert listener.codes() == [322, 103]
        assert decode_registration(listener.heard[1].body).configs == {}
        listener.heard.clear()
        topics.create_in_send_back("new", 1)
        await until(lambda: bool(listener.heard))
        assert set(decode_registration(listener.heard[0].body).configs) == {"new"}
        listener.heard.clear()
        listener.answers[322] = {"changed": "true"}, b""
        await ours.refresh()
        assert listener.codes() == [322, 103, 103, 103], "it does not know them any more"


async def test_no_part_is_large_however_much_a_topic_takes() -> None:
    async with Listener() as listener, registration(config(listener.address)) as (ours, topics):
        for number in range(40):
            topics.put(TopicConfig(f"T{number}", filter_type="x" * 250_000))
        await ours.start()
        told = [decode_registration(command.body) for command in listener.heard]
        assert max(len(command.body) for command in listener.heard) < PART_BYTES + 1_000
        assert {name for part in told for name in part.configs} == set(topics.configs)
        assert [part.version == topics.version for part in told] == [False] * (len(told) - 1) + [True]


async def test_topics_that_appear_together_are_told_in_parts_as_well() -> None:
    async with Listener() as listener, registration(config(listener.address)) as (ours, topics):
        await ours.start()
        listener.heard.clear()
        names = [f"%RETRY%{number:0240}" for number in range(3_000)]
        for name in names:
            topics.create_in_send_back(name, 1)
        await until(lambda: len(listener.heard) >= 4)
        told = [decode_registration(command.body) for command in listener.heard]
        assert max(len(command.body) for command in listener.heard) < PART_BYTES + 1_000
        assert set(names) <= {name for part in told for name in part.configs}
        assert told[-1].version == topics.version
        assert len({part.version for part in told}) == len(told)
