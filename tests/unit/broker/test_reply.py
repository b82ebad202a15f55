"""Answers reach who asked, and are stored as recorded from RocketMQ 4.9.8."""

from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.clients import ClientIdentity, ClientTable
from rocketeer.protocol.bodies.heartbeat import Heartbeat, encode_heartbeat
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.remoting.client import RemotingClient
from rocketeer.steps import finish
from support.broker import BrokerUnderTest, broker_at
from support.recorded import recorded_command, recorded_commands, recorded_messages

ASKED_BY = "127.0.0.1@PG_request"
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"


class Asker:
    """A producer that asked, reduced to its connection, its heartbeat and the answers it got."""

    def __init__(self, broker: BrokerUnderTest, *, code: int = 0) -> None:
        self.client = RemotingClient()
        self.got: list[Command] = []
        self._broker = broker
        self._code = code
        self.client.handle(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._take)

    def _take(self, command: Command, address: str) -> Command:
        self.got.append(command)
        return reply(command, self._code)

    async def beat(self) -> None:
        body = encode_heartbeat(Heartbeat(ASKED_BY, ("PG_request",)))
        assert (await self.client.invoke(self._broker.address, request(34, body=body), 20)).code == 0


async def _answer(broker: BrokerUnderTest, recorded: Command, **ext: Any) -> Command:
    return await broker.ask(recorded.code, {**recorded.ext, **ext}, recorded.body)


async def test_an_answer_is_pushed_and_stored_as_recorded(tmp_path: Path) -> None:
    recorded = recorded_commands("request_reply", 325)
    pushed = recorded_command("request_reply", 326)
    stored = recorded_messages("request_reply", REPLY_TOPIC)
    async with broker_at(tmp_path) as broker:
        asker = Asker(broker)
        await asker.beat()
        for number, command in enumerate(recorded):
            answer = await _answer(broker, command)
            assert (answer.code, answer.remark) == (0, None)
            expected = recorded_commands("request_reply", 325, reply=True)[number]
            assert set(answer.ext) == set(expected.ext)
            assert answer.ext["queueOffset"] == str(number)
        messages = await broker.messages(REPLY_TOPIC)
        asker.client.close()
    assert len(asker.got) == len(recorded)
    first = asker.got[0]
    assert first.body == pushed.body
    varies = {"storeTimestamp", "bornHost", "storeHost", "properties"}
    assert {k: v for k, v in first.ext.items() if k not in varies} == {
        k: v for k, v in pushed.ext.items() if k not in varies
    }
    assert set(first.ext) == set(pushed.ext)
    told = {part.split("\x01")[0] for part in first.ext["properties"].split("\x02") if part}
    assert told == {part.split("\x01")[0] for part in pushed.ext["properties"].split("\x02")}
    for message, was in zip(messages, stored, strict=False):
        assert message.properties_dict() == was["properties"]
        assert (message.size, message.sys_flag, message.body.hex()) == (
            was["storeSize"], was["sysFlag"], was["body_hex"],
        )  # fmt: skip


async def test_the_long_header_is_answered_alike(tmp_path: Path) -> None:
    recorded = recorded_command("request_reply_v1", 324)
    async with broker_at(tmp_path) as broker:
        asker = Asker(broker)
        await asker.beat()
        assert (await _answer(broker, recorded)).code == 0
        asker.client.close()
    assert asker.got[0].body == recorded.body


async def test_an_answer_that_does_not_arrive_is_told_so_and_stored(tmp_path: Path) -> None:
    recorded = recorded_command("request_reply", 325)
    async with broker_at(tmp_path) as broker:
        gone = await _answer(broker, recorded)
        assert gone.code == 1
        assert gone.remark == f"push reply message fail, channel of <{ASKED_BY}> not found."
        nobody = await _answer(broker, recorded, i="MSG_TYPE\x01reply")
        assert (nobody.code, nobody.remark) == (1, "reply message properties[REPLY_TO_CLIENT] is null")
        asker = Asker(broker, code=1)
        await asker.beat()
        refused = await _answer(broker, recorded)
        assert (refused.code, refused.remark) == (1, f"push reply message to {ASKED_BY}fail.")
        assert len(await broker.messages(REPLY_TOPIC)) == 3
        nowhere = await _answer(broker, recorded, b="Nowhere", c="Nothing")
        assert nowhere.code == 17
        assert nowhere.ext["MSG_REGION"] == "DefaultRegion"
        asker.client.close()


async def test_answers_need_not_be_stored(tmp_path: Path) -> None:
    recorded = recorded_command("request_reply", 325)
    async with broker_at(tmp_path, broker={"store_reply_enable": False}) as broker:
        asker = Asker(broker)
        await asker.beat()
        answer = await _answer(broker, recorded)
        assert (answer.ext["msgId"], answer.ext["queueId"], answer.ext["queueOffset"]) == ("0", "0", "0")
        assert await broker.messages(REPLY_TOPIC) == []
        asker.client.close()


@pytest.mark.parametrize("leaving", ["goodbye", "closing", "silence"])
def test_a_producer_is_found_by_its_id_while_it_is_there(leaving: str) -> None:
    table: ClientTable[str] = ClientTable(expiry_ms=100)
    identity = ClientIdentity("10.0.0.1@p", "PYTHON", 409)
    for group in ("A", "B"):
        table.producer_heartbeat(group, "old", identity, now_ms=0)
    table.producer_heartbeat("A", "new", identity, now_ms=50)
    assert table.producer_connection("10.0.0.1@p") == "new"
    list(table.leaving("old"))
    assert table.producer_connection("10.0.0.1@p") == "new", "the old connection ended, not the client"
    table.producer_heartbeat("B", "new", identity, now_ms=50)
    if leaving == "goodbye":
        table.unregister_producer("A", "new")
        assert table.producer_connection("10.0.0.1@p") == "new", "it still produces for B"
        table.unregister_producer("B", "new")
    elif leaving == "closing":
        list(table.leaving("new"))
    else:
        finish(table.expiring(1000))
    assert table.producer_connection("10.0.0.1@p") is None
