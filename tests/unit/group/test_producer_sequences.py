"""Where a producer stands is told of what is confirmed: never of bytes that may be cut, in either role."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from rocketeer.broker.features.group.leader import LeaderReplication
from rocketeer.broker.features.idempotence.resends import Idempotence, IdempotenceLimits
from rocketeer.broker.group.member import ReplicaGroupMember
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.clock import SystemClock
from rocketeer.config import BrokerConfig, ServerConfig
from rocketeer.config.group import ReplicaGroupConfig
from rocketeer.config.ports import free_ports
from rocketeer.errors import PortInUse, RequestRefused
from rocketeer.group.leadership import Leadership
from rocketeer.group.state import GroupState, Leader, MemberIdentity
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.record.properties import encode_properties
from rocketeer.remoting.client import RemotingClient
from rocketeer.remoting.connection import Connection
from rocketeer.testing.cluster import PATIENT, START_TRIES
from support.broker import LOCAL, SMALL, BrokerUnderTest, broker_at
from support.stores import make_bounded_store, message

ASKED = {"producerId": "p", "topic": "T", "queueId": 0}


def numbered(sequence: int) -> str:
    return f"PRODUCER_ID\x01p\x02PRODUCER_SEQ\x01{sequence}\x02UNIQ_KEY\x01U{sequence}"


@asynccontextmanager
async def follower_without_a_leader(store: Path) -> AsyncIterator[BrokerUnderTest]:
    """A member whose etcd is away: it serves, and follows nobody."""
    for attempt in range(START_TRIES):
        _, port = free_ports()
        group_port, away = free_ports()
        group = ReplicaGroupConfig(etcd=f"http://127.0.0.1:{away}", member_id=1, port_or_zero=group_port)
        member = ReplicaGroupMember(
            BrokerConfig(**{**LOCAL, **PATIENT, "group": group}),  # type: ignore[arg-type]
            dataclasses.replace(SMALL, store_path=store),
            ServerConfig(bind_host="127.0.0.1", listen_port=port),
            SystemClock(),
        )
        try:
            await member.start()
            break
        except PortInUse:
            if attempt == START_TRIES - 1:
                raise
    client = RemotingClient()
    try:
        yield BrokerUnderTest(f"127.0.0.1:{port}", client)
    finally:
        client.close()
        await member.stop()


async def test_a_follower_whose_tail_is_not_cut_yet_tells_no_sequence(tmp_path: Path) -> None:
    """It would name a number behind the cut: a producer that starts again with it meets a gap at the next leader."""
    async with broker_at(tmp_path) as broker:
        for number in range(3):
            assert (await broker.send("T", b"x", properties=numbered(number))).code == 0
        answer = await broker.ask(RequestCode.GET_PRODUCER_SEQUENCE, ASKED)
        assert answer.ext["nextSequence"] == "3"
    async with follower_without_a_leader(tmp_path) as member:
        answer = await member.ask(RequestCode.GET_PRODUCER_SEQUENCE, ASKED)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, answer.ext
        assert not answer.ext
        pulled = await member.pull("T")
        assert pulled.code != ResponseCode.SUCCESS, "nothing of it is confirmed"


class Led:
    """A leader of two with one message, which the other member does not have yet."""

    def __init__(self, folder: Path) -> None:
        self.store, bound = make_bounded_store(folder)
        self.store.open()
        self.part = LeaderReplication(self.store, bound, flushes=False, confirmed=0)
        me = MemberIdentity(1, "store1", "s1")
        state = GroupState("g", 1, 1, Leader(1, "s1"), {1: "store1", 2: "store2"})
        self.leadership = Leadership(
            state,
            me,
            [(1, 0)],
            registry=cast(Any, None),
            sent_log=self.store.log,
            clock=lambda: 100.0,
            lease_s=3,
            lag_s_max=2,
            min_in_sync=2,
            confirmed=0,
            remember=lambda state: None,
        )
        self.part.lead(self.leadership)
        self.end = self.store.append(message()).end
        self.leadership.note_progress(self.end)
        self.asking = asyncio.create_task(self._ask())

    async def _ask(self) -> Command | None:
        def tell(command: Command, connection: Connection) -> Command:
            return reply(command, ext={"nextSequence": "1"})

        handler = self.part.confirmed_answer(tell)
        asked = request(RequestCode.GET_PRODUCER_SEQUENCE, {})
        return await cast(Any, handler(asked, cast(Any, None)))  # type: ignore[no-any-return]

    async def waits(self) -> bool:
        done, _ = await asyncio.wait((self.asking,), timeout=0.05)
        return not done


async def test_a_leader_tells_a_sequence_when_all_that_it_speaks_of_is_confirmed(tmp_path: Path) -> None:
    led = Led(tmp_path)
    assert await led.waits()
    led.leadership.count.note_progress(2, led.end)
    answer = await led.asking
    assert answer is not None
    assert answer.ext == {"nextSequence": "1"}
    led.store.close()


async def test_a_leader_that_falls_before_it_is_confirmed_tells_none(tmp_path: Path) -> None:
    led = Led(tmp_path)
    assert await led.waits()
    await led.leadership.close()
    with pytest.raises(RequestRefused) as refused:
        await led.asking
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    led.store.close()


async def test_a_resend_waits_for_the_confirmation_of_its_original(tmp_path: Path) -> None:
    led = Led(tmp_path)
    table = Idempotence(IdempotenceLimits(), led.store, salt=bytes(16))
    writer = Writer(
        led.store,
        message_bytes_max=led.store.config.message_bytes_max,
        counters=Counters(),
        resends=[table.examining],
        durability=led.part.feature().durability,
    )
    sent = message(b"0")
    sent.properties = encode_properties({"PRODUCER_ID": "p", "PRODUCER_SEQ": "0"})
    outcome: list[WriteResult] = []
    writer.put(msgspec.structs.replace(sent), outcome.append)
    end = led.store.max_log_offset
    writer.put(msgspec.structs.replace(sent), outcome.append)
    assert led.store.max_log_offset == end, "it is stored once"
    assert outcome == []
    led.leadership.note_progress(end)
    led.leadership.count.note_progress(2, end)
    assert [put.code for put in outcome] == [ResponseCode.SUCCESS] * 2
    assert outcome[0].appended[0].log_offset == outcome[1].appended[0].log_offset
    await led.asking
    led.store.close()
