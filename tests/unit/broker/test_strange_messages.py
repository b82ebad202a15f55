"""Messages that say strange things of themselves: they cost their sender something, and nobody else anything."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.features.idempotence.producer_marks import read_sent
from rocketeer.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock
from support.pairs import eventually, ha_address, slave_at
from support.stores import message, open_store, read_queue

MARK = "PRODUCER_ID\x01p\x02PRODUCER_SEQ\x010"
QUEUES = ["9" * 5_000, "9" * 25, "²", "-1", "1" * 10]


async def end_of(broker: BrokerUnderTest, topic: str, queue_id: int = 0) -> int:
    answer = await broker.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id})
    return int(answer.ext["offset"])


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_queue_id_of_any_digits_stops_neither_a_slave_nor_a_start_after_a_crash(
    tmp_path: Path, queue: str
) -> None:
    async with broker_at(tmp_path / "m") as master, slave_at(tmp_path / "s", ha_address(master)) as slave:
        properties = f"{MARK}\x02REAL_TOPIC\x01x\x02REAL_QID\x01{queue}"
        assert (await master.send("T", b"strange", properties=properties)).code == ResponseCode.SUCCESS
        assert (await master.send("T", b"honest")).code == ResponseCode.SUCCESS

        async def has_both() -> bool:
            return await end_of(slave, "T") == 2

        await eventually(has_both, seconds=10, what="the slave follows")
        shutil.copytree(tmp_path / "m", tmp_path / "crashed")
    for life in ("crashed", "s"):
        async with broker_at(tmp_path / life) as again:
            assert [each.body for each in await again.messages("T")] == [b"strange", b"honest"]


@pytest.mark.parametrize("topic", ["T", SCHEDULE_TOPIC])
def test_where_a_message_was_sent_to_is_believed_where_the_broker_wrote_it_down(
    tmp_path: Path, topic: str
) -> None:
    store, _ = open_store(tmp_path)
    store.append(
        message(
            topic=topic,
            properties={"PRODUCER_ID": "p", "PRODUCER_SEQ": "0", "REAL_TOPIC": "x", "REAL_QID": "7"},
        )
    )
    (stored,) = read_queue(store, topic)
    sent = read_sent(stored)
    assert sent is not None
    assert (sent.topic, sent.queue_id) == (("x", 7) if topic == SCHEDULE_TOPIC else ("T", 0))
    store.close()


@pytest.mark.parametrize("level", ["²", "٣", "9" * 5_000, "x"])
async def test_a_level_that_is_none_is_refused_also_beside_a_time(tmp_path: Path, level: str) -> None:
    async with broker_at(tmp_path) as broker:
        answer = await broker.send("T", b"x", properties=f"DELAY\x01{level}\x02TIMER_DELAY_MS\x011000")
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "a delay level is a whole number" in (answer.remark or "")


async def test_a_level_with_a_sign_counts_more_than_a_time_beside_it(tmp_path: Path) -> None:
    """It was made to wait twice, for a queue of the timers: there it was due again and again, without end."""
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        answer = await broker.send("T", b"x", properties="DELAY\x01+1\x02TIMER_DELAY_MS\x0110")
        assert answer.code == ResponseCode.SUCCESS
        for _ in range(20):
            clock.advance(ms=1_000)
            await asyncio.sleep(0.03)
        assert await end_of(broker, TIMER_TOPIC) == 0
        assert [each.body for each in await broker.messages("T")] == [b"x"]


async def test_nobody_is_told_that_a_timer_belongs_to_the_timers(tmp_path: Path) -> None:
    """A record of another broker, or of an older version: it is dropped, and not put back for ever."""
    clock = ManualClock()
    store, _ = open_store(tmp_path, clock=clock)
    target = {"TIMER_OUT_MS": "1000", "REAL_TOPIC": TIMER_TOPIC, "REAL_QID": "0"}
    store.append(message(topic=TIMER_TOPIC, properties=target))
    store.close()
    async with broker_at(tmp_path, clock=clock) as broker:
        for _ in range(10):
            clock.advance(ms=1_000)
            await asyncio.sleep(0.03)
        assert await end_of(broker, TIMER_TOPIC) == 1


async def test_a_message_that_was_tried_as_often_as_can_be_goes_back(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        sent = await broker.send("T", b"x", j=(1 << 31) - 1)
        assert sent.code == ResponseCode.SUCCESS
        back: dict[str, Any] = {"group": "g", "offset": int(sent.ext["msgId"][-16:], 16), "delayLevel": 0}
        answer = await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert [each.body for each in await broker.messages("%DLQ%g")] == [b"x"]
