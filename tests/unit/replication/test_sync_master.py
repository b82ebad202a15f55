"""SYNC_MASTER: a reply waits for a slave, and says so when there is none, or when it takes too long."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rocketeer.answers import ANSWERS_AT_ONCE
from rocketeer.config import BrokerRole
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.record.ids import parse_offset_msg_id
from rocketeer.replication.confirmations import Confirmations, SlaveOutcome
from rocketeer.replication.stream import HEADER, REPORT
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock
from support.pairs import eventually, ha_address, slave_at

SYNC = {"broker_role": BrokerRole.SYNC_MASTER, "slave_timeout_ms": 600}
PATIENT = {**SYNC, "slave_timeout_ms": 30_000}
"""That a machine is busy is no time-out."""


class Slave:
    def __init__(self, acknowledged: int) -> None:
        self.acknowledged = acknowledged


def test_a_wait_ends_with_the_first_slave_that_has_it_or_with_the_time() -> None:
    clock, slaves, seen = ManualClock(), [Slave(100), Slave(40)], []
    waits = Confirmations(slaves, clock, timeout_ms=3_000, behind_bytes_max=1_000)
    waits.wait(100, seen.append)
    waits.wait(1_100, seen.append)
    assert seen == [SlaveOutcome.CONFIRMED, SlaveOutcome.NO_SLAVE], "1000 behind is not near enough"
    seen.clear()
    waits.wait(150, seen.append)
    waits.wait(160, seen.append)
    slaves[1].acknowledged = 150
    waits.advanced()
    assert seen == [SlaveOutcome.CONFIRMED]
    clock.advance(ms=3_100)
    waits.expire()
    assert seen == [SlaveOutcome.CONFIRMED, SlaveOutcome.TIMEOUT]
    slaves.clear()
    waits.wait(170, seen.append)
    assert seen[-1] is SlaveOutcome.NO_SLAVE


def test_thousands_that_a_slave_has_are_answered_some_at_a_time_whatever_becomes_of_it() -> None:
    clock, slaves, seen = ManualClock(), [Slave(0)], list[SlaveOutcome]()
    later: list[Callable[[], None]] = []
    waits = Confirmations(slaves, clock, timeout_ms=3_000, behind_bytes_max=10_000, schedule=later.append)
    for number in range(1_000):
        waits.wait(number + 1, seen.append)
    slaves[0].acknowledged = 900
    waits.advanced()
    assert len(seen) == ANSWERS_AT_ONCE
    slaves.clear()
    clock.advance(ms=3_100)
    waits.expire()
    while later:
        before = len(seen)
        later.pop(0)()
        assert len(seen) - before <= ANSWERS_AT_ONCE
    assert seen == [SlaveOutcome.CONFIRMED] * 900 + [SlaveOutcome.TIMEOUT] * 100


def test_a_reply_that_fails_keeps_nobody_else_from_theirs() -> None:
    clock, slaves, told = ManualClock(), [Slave(0)], list[int]()
    later: list[Callable[[], None]] = []
    waits = Confirmations(slaves, clock, timeout_ms=3_000, behind_bytes_max=10_000, schedule=later.append)

    def reply(number: int, outcome: SlaveOutcome) -> None:
        if number in (0, 70, 150):
            raise ValueError(number)
        told.append(number)

    def turns() -> None:
        while later:
            later.pop(0)()

    for number in range(300):
        waits.wait(number + 1, partial(reply, number))
    for acknowledged in (10, 140):
        slaves[0].acknowledged = acknowledged
        waits.advanced()
        turns()
    assert told == [number for number in range(140) if number not in (0, 70)]
    clock.advance(ms=3_100)
    waits.expire()
    turns()
    assert told == [number for number in range(300) if number not in (0, 70, 150)]


def test_who_is_confirmed_and_not_answered_yet_is_told_so_when_the_master_stops() -> None:
    slaves, told = [Slave(0)], list[SlaveOutcome]()
    waits = Confirmations(
        slaves, ManualClock(), timeout_ms=3_000, behind_bytes_max=10_000, schedule=lambda run: None
    )
    for number in range(200):
        waits.wait(number + 1, told.append)
    slaves[0].acknowledged = 150
    waits.advanced()
    waits.close()
    assert told == [SlaveOutcome.CONFIRMED] * 150 + [SlaveOutcome.TIMEOUT] * 50
    assert len(waits) == 0


@contextlib.contextmanager
def stranger(master: BrokerUnderTest) -> Iterator[socket.socket]:
    """A peer at the HA port that speaks 4.9.8's bytes and keeps them."""
    host, _, port = ha_address(master).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        yield sock


async def test_without_a_slave_the_answer_comes_at_once(tmp_path: Path) -> None:
    async with broker_at(tmp_path, store=SYNC) as master:
        sent = await master.send("T", b"x")
        assert sent.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert sent.ext["queueOffset"] == "0", "it is stored all the same"
        sent = await master.send("T", b"x", properties="WAIT\x01false")
        assert sent.code == ResponseCode.SUCCESS, "one that does not wait is not told"


async def test_with_a_slave_each_answer_means_that_it_has_the_message(tmp_path: Path) -> None:
    async with (
        broker_at(tmp_path / "m", store=PATIENT) as master,
        slave_at(tmp_path / "s", ha_address(master)),
    ):

        async def near() -> bool:
            return (await master.send("T", b"first")).code == ResponseCode.SUCCESS

        await eventually(near)
        answers = await asyncio.gather(*[master.send("T", b"body-%d." % n) for n in range(50)])
        assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 50
        copied = (tmp_path / "s" / "commitlog" / f"{0:020d}").read_bytes()
        assert all(b"body-%d." % n in copied for n in range(50))


async def test_a_slave_that_reports_nothing_more_is_waited_for_as_long_as_configured(tmp_path: Path) -> None:
    async with broker_at(tmp_path, store=SYNC) as master:
        with stranger(master) as slave:
            slave.sendall(REPORT.pack(0))

            async def seen() -> bool:
                return (await master.send("T", b"x")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT

            await eventually(seen)


@pytest.mark.parametrize("first", [True, False])
async def test_rocketmq_issue_3015_a_report_beyond_what_was_sent_confirms_nothing(
    tmp_path: Path, first: bool
) -> None:
    async with broker_at(tmp_path, store=SYNC) as master:
        await master.send("T", b"x")
        with stranger(master) as slave:
            if not first:
                slave.sendall(REPORT.pack(0))
                await asyncio.to_thread(slave.recv, HEADER.size)
            slave.sendall(REPORT.pack(1 << 40))

            def ended() -> bool:
                while slave.recv(4096):
                    pass
                return True

            assert await asyncio.to_thread(ended), "the connection is closed"
        sent = await master.send("T", b"x")
        assert sent.code == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_what_clients_would_do_again_is_done_without_a_slave(tmp_path: Path) -> None:
    """As RocketMQ: a message that goes back and the end of a transaction ask for no slave."""
    async with broker_at(tmp_path, store=SYNC) as master:
        sent = await master.send("T", b"x")
        _, log_offset = parse_offset_msg_id(sent.ext["msgId"])
        back = {"offset": log_offset, "group": "CG", "delayLevel": 3, "originTopic": "T"}
        answer = await master.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        assert answer.code == ResponseCode.SUCCESS, answer
        half = await master.send(
            "T", b"h", properties="TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01U", f=4
        )
        _, log_offset = parse_offset_msg_id(half.ext["msgId"])
        end = {
            "producerGroup": "PG", "tranStateTableOffset": half.ext["queueOffset"], "commitOrRollback": 8,
            "commitLogOffset": log_offset, "msgId": "U", "transactionId": "U",
        }  # fmt: skip
        answer = await master.ask(RequestCode.END_TRANSACTION, end)
        assert answer.code == ResponseCode.SUCCESS, answer
