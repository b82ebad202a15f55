"""What operators ask of running members: RocketMQ's answers for those who are there, and for those who are not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.features.members.feature import members_feature
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.handlers.clients import ClientService
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.config import BrokerConfig
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import Subscription
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.connections import decode_group_connections
from rocketeer.protocol.bodies.heartbeat import ConsumerData, Heartbeat, encode_heartbeat
from rocketeer.protocol.bodies.offsets import (
    decode_queue_offsets,
    encode_member_status,
    reading_member_status,
)
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.record.layout import StoredMessage, decode_record
from rocketeer.remoting.client import RemotingClient
from rocketeer.remoting.router import Router
from rocketeer.remoting.server import RemotingServer
from rocketeer.steps import finish
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock
from support.recorded import recorded_command

GROUP = "CG_admin"
TOPIC = "TopicTest"


class Member:
    """A consumer reduced to its connection, its heartbeat and what it is asked."""

    def __init__(self, broker: BrokerUnderTest, client_id: str = "10.0.0.1@m1") -> None:
        self.broker = broker
        self.client_id = client_id
        self.client = RemotingClient()
        self.asked: list[Command] = []
        self.answers: dict[int, bytes] = {}
        for code in (220, 221, 307, 309):
            self.client.handle(code, self._answer)

    def _answer(self, command: Command, address: str) -> Command | None:
        self.asked.append(command)
        body = self.answers.get(command.code)
        return None if body is None else reply(command, 0, "as asked", {"x": "y"}, body)

    async def beat(self, *, language: str = "JAVA", version: int = 409) -> None:
        consumer = ConsumerData(GROUP, subscriptions=(Subscription(TOPIC, version=7),))
        command = request(34, body=encode_heartbeat(Heartbeat(self.client_id, (), (consumer,))))
        command.language, command.version = language, version
        assert (await self.client.invoke(self.broker.address, command, 20)).code == 0

    async def heard(self, code: int) -> Command:
        for _ in range(2000):
            for command in self.asked:
                if command.code == code:
                    return command
            await asyncio.sleep(0.005)
        raise AssertionError(f"code {code} was never asked")


async def _filled(broker: BrokerUnderTest, clock: ManualClock, count: int = 4) -> None:
    """One queue of TopicTest, a message every 10 ms, all consumed."""
    await broker.ask(17, {"topic": TOPIC, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6})
    for number in range(count):
        await broker.send(TOPIC, b"%d" % number)
        clock.advance(ms=10)
    await _commit(broker, count)


async def _commit(broker: BrokerUnderTest, offset: int) -> None:
    header = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": offset}
    assert (await broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == 0


async def _reset(broker: BrokerUnderTest, time_ms: int, *, force: bool = True, **more: Any) -> Command:
    header = {"topic": TOPIC, "group": GROUP, "timestamp": time_ms, "isForce": str(force).lower()}
    return await broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header | more)


async def test_members_are_told_the_offsets_of_a_millisecond(tmp_path: Path) -> None:
    clock = ManualClock()
    began_ms = clock.now_ms()
    queue = MessageQueue(TOPIC, "broker-a", 0)
    async with broker_at(tmp_path, clock=clock) as broker:
        await _filled(broker, clock)
        member = Member(broker)
        await member.beat()
        for time_ms, offset in ((began_ms + 10, 1), (began_ms + 16, 2), (began_ms + 20, 2), (0, 0), (-1, 4)):
            member.asked.clear()
            answer = await _reset(broker, time_ms)
            assert (answer.code, decode_queue_offsets(answer.body)) == (0, {queue: offset})
            told = await member.heard(220)
            assert decode_queue_offsets(told.body) == {queue: offset}
            recorded = recorded_command("admin_resetOffsetByTime", 220)
            assert (told.flag, set(told.ext)) == (recorded.flag, set(recorded.ext))
            assert told.ext["isForce"] == "false", "as recorded"
        member.client.close()


async def test_without_force_nobody_is_led_forwards(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        await _filled(broker, clock)
        await _commit(broker, 2)
        member = Member(broker)
        await member.beat()
        answer = await _reset(broker, -1, force=False)
        assert list(decode_queue_offsets(answer.body).values()) == [2]
        member.client.close()


@pytest.mark.parametrize(("asker", "member_language"), [("CPP", "JAVA"), ("JAVA", "CPP")])
async def test_the_cpp_client_is_told_a_list(tmp_path: Path, asker: str, member_language: str) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        await _filled(broker, clock)
        member = Member(broker)
        await member.beat(language=member_language)
        header = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
        answer = await broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, language=asker)
        assert answer.code == 0
        told = await member.heard(220)
        row = {"brokerName": "broker-a", "offset": 0, "queueId": 0, "topic": TOPIC}
        assert fastjson.loads(told.body) == {"offsetTable": [row]}
        member.client.close()


async def test_resetting_is_refused_in_the_words_of_rocketmq(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        answer = await _reset(broker, 0, topic="Nowhere")
        text = "[reset-offset] reset offset failed, no topic in this broker. topic=Nowhere"
        assert (answer.code, answer.remark) == (1, text)
        await broker.send(TOPIC, b"x")
        answer = await _reset(broker, 0)
        assert (answer.code, answer.remark) == (1, f"THe consumer group <{GROUP}> not exist")
        await _filled(broker, clock)
        answer = await _reset(broker, 1_700_000_000_000)
        text = (
            f"Consumer not online, so can not reset offset, Group: {GROUP} Topic: {TOPIC} "
            "Timestamp: 1700000000000"
        )
        assert (answer.code, answer.remark) == (ResponseCode.CONSUMER_NOT_ONLINE, text)

        old, new = Member(broker, "10.0.0.1@old"), Member(broker, "10.0.0.1@new")
        await new.beat()
        await old.beat(version=27)
        answer = await _reset(broker, 0)
        text = "the client does not support this feature. version=V3_0_6"
        assert (answer.code, answer.remark) == (1, text)
        assert not new.asked, "all members or none"
        old.client.close()
        new.client.close()


async def test_a_group_without_members_has_no_connections_and_no_state(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        answer = await broker.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP})
        assert (answer.code, answer.remark) == (206, f"the consumer group[{GROUP}] not online")
        answer = await broker.ask(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": TOPIC, "group": GROUP}
        )
        text = f"No Any Consumer online in the consumer group: [{GROUP}]"
        assert (answer.code, answer.remark) == (1, text)
        asked = {"consumerGroup": GROUP, "clientId": "10.0.0.1@gone"}
        answer = await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, asked)
        text = f"The Consumer <{GROUP}> <10.0.0.1@gone> not online"
        assert (answer.code, answer.remark) == (1, text)


async def test_connections_are_told_as_recorded(tmp_path: Path) -> None:
    recorded = decode_group_connections(recorded_command("admin_consumerConnection", 203, reply=True).body)
    async with broker_at(tmp_path) as broker:
        member = Member(broker)
        await member.beat(language="JAVA", version=409)
        answer = await broker.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP})
        body = fastjson.loads(answer.body)
        found = decode_group_connections(answer.body)
        member.client.close()
    keys = ["connectionSet", "consumeFromWhere", "consumeType", "messageModel", "subscriptionTable"]
    assert sorted(body) == keys
    ((client,), (was,)) = found.connections, recorded.connections
    assert (client.client_id, client.language, client.version) == ("10.0.0.1@m1", was.language, was.version)
    assert client.address.startswith("127.0.0.1:")
    assert (found.consume_type, found.message_model) == (recorded.consume_type, recorded.message_model)
    assert found.subscriptions[TOPIC].expression == recorded.subscriptions[TOPIC].expression


async def test_every_member_tells_how_far_it_is(tmp_path: Path) -> None:
    queue = MessageQueue(TOPIC, "broker-a", 0)
    async with broker_at(tmp_path) as broker:
        members = [Member(broker, f"10.0.0.1@m{number}") for number in range(2)]
        for number, member in enumerate(members):
            member.answers[221] = encode_member_status({queue: number})
            await member.beat()
        asked = {"topic": TOPIC, "group": GROUP}
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        everybody = fastjson.loads((await broker.ask(code, asked)).body)["consumerTable"]
        one = fastjson.loads((await broker.ask(code, {**asked, "clientAddr": "10.0.0.1@m1"})).body)
        for member in members:
            member.client.close()
    assert set(everybody) == {"10.0.0.1@m0", "10.0.0.1@m1"}
    assert set(one["consumerTable"]) == {"10.0.0.1@m1"}
    assert finish(reading_member_status(encode_member_status({queue: 1}))) == {queue: 1}


async def test_state_and_single_messages_are_passed_on_as_they_are(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        member = Member(broker)
        member.answers = {307: b"state", 309: b"consumed"}
        await member.beat()
        sent = await broker.send(TOPIC, b"again")
        asked = {"consumerGroup": GROUP, "clientId": member.client_id}
        info = await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {**asked, "jstackEnable": "true"})
        assert (info.code, info.remark, info.ext, info.body) == (0, "as asked", {"x": "y"}, b"state")
        assert (await member.heard(307)).ext == {**asked, "jstackEnable": "true"}
        direct = {**asked, "msgId": sent.ext["msgId"]}
        done = await broker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, direct)
        assert (done.code, done.body) == (0, b"consumed")
        told = await member.heard(309)
        assert told.ext == {**direct, "brokerName": "broker-a"}
        assert decode_record(told.body).body == b"again"

        missing = await broker.ask(
            RequestCode.CONSUME_MESSAGE_DIRECTLY, {**asked, "msgId": "7F00000100002A9F00000000000FFFFF"}
        )
        assert (missing.code, missing.remark) == (1, "can not find message by the offset, 1048575")
        wrong = await broker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, {**asked, "msgId": "xyz"})
        assert (wrong.code, "xyz" in (wrong.remark or "")) == (1, True)

        await member.beat(version=61)
        old = await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, asked)
        text = (
            f"The Consumer <{member.client_id}> Version <V3_1_7> too low to finish, "
            "please upgrade it to V3_1_8_SNAPSHOT"
        )
        assert (old.code, old.remark) == (1, text)
        member.client.close()


class _NoStore:
    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        return 0

    def offset_by_time(self, topic: str, queue_id: int, store_ms: int) -> int:
        return 0

    def named_at(self, log_offset: int) -> StoredMessage | None:
        return None


async def test_a_member_that_does_not_answer_in_time_is_told_of() -> None:
    clock = ManualClock()
    config = BrokerConfig(broker_name="broker-a")
    table: Any = ClientTable()
    topics = TopicTable(config, clock)
    service = ClientService(table, groups=ConsumerGroupTable(config, clock), topics=topics, clock=clock)
    members = members_feature(
        table,
        topics=topics,
        offsets=ConsumerOffsets(),
        store=_NoStore(),
        broker_name="broker-a",
        relay_s=0.05,
    )
    server = RemotingServer(Router({**service.handlers(), **members.handlers}).process)
    await server.start("127.0.0.1", [0])
    async with RemotingClient() as asker:
        broker = BrokerUnderTest(f"127.0.0.1:{server.ports[0]}", asker)
        member = Member(broker)
        await member.beat()
        asked = {"consumerGroup": GROUP, "clientId": member.client_id}
        answer = await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, asked)
        assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
        assert (answer.remark or "").startswith(f"consumer <{GROUP}> <{member.client_id}> Timeout: ")
        member.client.close()
    await server.stop()
