"""A delivery goes back once: asked again, over restarts, the broker stores no second copy; who resets gets one."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.features.retry.feature import retry_copy
from rocketeer.broker.features.retry.sent_back import KEEP_MS, SentBack
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.errors import StoreError
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.topic import TIMER_TOPIC, TopicConfig, retry_topic
from rocketeer.protocol.codes import RequestCode
from rocketeer.record.layout import StoredMessage
from rocketeer.record.properties import decode_properties, encode_properties
from rocketeer.steps import finish
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock
from support.step_times import no_collection
from support.stores import make_store
from support.stores import message as stored_message

TOPIC, GROUP = "RetryTopic", "CG_back"
WAITING, DEAD = ("SCHEDULE_TOPIC_XXXX", 2), (f"%DLQ%{GROUP}", 0)
SAVE_S = 0.05
GROUPS = 5_000


@asynccontextmanager
async def running(folder: Path, clock: ManualClock) -> AsyncIterator[BrokerUnderTest]:
    async with broker_at(
        folder, clock=clock, broker={"flush_consumer_offset_ms": int(SAVE_S * 1000)}
    ) as broker:
        yield broker


async def send_back(broker: BrokerUnderTest, message: StoredMessage, **ext: Any) -> None:
    header = {
        "offset": message.log_offset, "group": GROUP, "delayLevel": 0, "originMsgId": "x", "originTopic": TOPIC,
        "unitMode": "false", "maxReconsumeTimes": 1,
    }  # fmt: skip
    reply = await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header | ext)
    assert reply.code == 0, reply.remark


async def commit(broker: BrokerUnderTest, offset: int, topic: str = TOPIC) -> None:
    header = {"consumerGroup": GROUP, "topic": topic, "queueId": 0, "commitOffset": offset}
    assert (await broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == 0


async def count(broker: BrokerUnderTest, place: tuple[str, int]) -> int:
    return len(await broker.messages(*place))


async def first(broker: BrokerUnderTest, body: bytes = b"x") -> StoredMessage:
    await broker.send(TOPIC, body)
    return (await broker.messages(TOPIC))[-1]


async def arrival(broker: BrokerUnderTest, topic: str) -> StoredMessage:
    for _ in range(1000):
        for message in await broker.messages(topic):
            return message
        await asyncio.sleep(0.01)
    raise AssertionError(f"nothing came to {topic}")


def saved(folder: Path) -> list[int]:
    queues = json.loads((folder / "config" / "sentBack.json").read_text())["sentBack"]
    return [log_offset for queue in queues for log_offset in (*queue["tries"], *queue["dead"])]


async def until_saved(folder: Path, entries: int) -> None:
    for _ in range(400):
        if (folder / "config" / "sentBack.json").exists() and len(saved(folder)) == entries:
            return
        await asyncio.sleep(SAVE_S)
    raise AssertionError(f"not saved: {entries} entries")


async def test_the_same_delivery_goes_back_once(tmp_path: Path) -> None:
    async with running(tmp_path, ManualClock()) as broker:
        message, other = await first(broker), await first(broker, b"y")
        for _ in range(3):
            await send_back(broker, message)
        assert await count(broker, WAITING) == 1
        await send_back(broker, other)
        assert await count(broker, WAITING) == 2
        await send_back(broker, message, group="CG_other")
        assert await count(broker, WAITING) == 3
        for _ in range(2):  # who asks for something else is given it
            await send_back(broker, message, delayLevel=-1)
        assert await count(broker, DEAD) == 1


@pytest.mark.parametrize("table_is_there", [True, False])
async def test_over_a_restart_it_is_known_what_went_back(tmp_path: Path, table_is_there: bool) -> None:
    """Without the table, or behind it, the log tells: of the first try, of a later one, and of the last."""
    clock = ManualClock()
    async with running(tmp_path, clock) as broker:
        message = await first(broker)
        await send_back(broker, message)
    if not table_is_there:
        (tmp_path / "config" / "sentBack.json").unlink()
    async with running(tmp_path, clock) as broker:
        await send_back(broker, message)
        assert await count(broker, WAITING) == 1
        clock.advance(ms=10_000)
        second = await arrival(broker, f"%RETRY%{GROUP}")
        await send_back(broker, second)
        assert await count(broker, DEAD) == 1
    if not table_is_there:
        (tmp_path / "config" / "sentBack.json").unlink()
    async with running(tmp_path, clock) as broker:
        await send_back(broker, second)
        await send_back(broker, message)
        assert (await count(broker, DEAD), await count(broker, WAITING)) == (1, 1)


async def test_what_waits_for_a_time_of_its_own_went_back_too(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as broker:
        message = await first(broker)
        await send_back(broker, message, delayMs=60_000)
    (tmp_path / "config" / "sentBack.json").unlink()  # so that the log has to tell
    async with running(tmp_path, clock) as broker:
        await send_back(broker, message, delayMs=60_000)
        assert await count(broker, (TIMER_TOPIC, 0)) == 1
        assert await count(broker, WAITING) == 0


async def test_what_the_group_has_passed_is_forgotten_once_that_is_on_disk(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as broker:
        message = await first(broker)
        await send_back(broker, message)
        await until_saved(tmp_path, 1)
        await commit(broker, 0)
        await until_saved(tmp_path, 1)
        await commit(broker, 1)
        await until_saved(tmp_path, 0)
        await send_back(broker, message)
        assert await count(broker, WAITING) == 2
    async with running(tmp_path, clock):
        await until_saved(tmp_path, 0)


async def test_a_group_that_is_set_back_may_fail_again(tmp_path: Path) -> None:
    async with running(tmp_path, ManualClock()) as broker:
        one, two = await first(broker, b"1"), await first(broker, b"2")
        for message in (one, two):
            await send_back(broker, message)
        await commit(broker, 2)
        await commit(broker, 1)  # the second is wanted again
        for message in (one, two):
            await send_back(broker, message)
        bodies = [message.body for message in await broker.messages(*WAITING)]
        assert bodies == [b"1", b"2", b"2"]


async def test_nothing_is_remembered_for_ever(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as broker:
        message = await first(broker)
        await send_back(broker, message)
        clock.advance(ms=KEEP_MS)
        await send_back(broker, message)
        assert await count(broker, WAITING) == 1
        clock.advance(ms=1)
        await send_back(broker, message)
        assert await count(broker, WAITING) == 2


async def test_a_table_that_cannot_be_understood_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "sentBack.json").write_text('{"logOffset": 0, "sentBack": {"a": 1}}')
    with pytest.raises(StoreError, match=r"sentBack\.json cannot be understood"):
        async with running(tmp_path, ManualClock()):
            pass


async def test_the_oldest_is_forgotten_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketeer.broker.features.retry.sent_back.COUNT_MAX", 2)
    async with running(tmp_path, ManualClock()) as broker:
        messages = [await first(broker, b"%d" % number) for number in range(3)]
        for message in (*messages, *reversed(messages)):
            await send_back(broker, message)
        bodies = [message.body for message in await broker.messages(*WAITING)]
        assert bodies == [b"0", b"1", b"2", b"0"]


def delivery(number: int) -> StoredMessage:
    return StoredMessage(
        topic=TOPIC, queue_id=0, queue_offset=QueueOffset(number), log_offset=LogOffset(number), size=1, flag=0,
        sys_flag=0, born_ms=0, born_host=b"", store_ms=0, store_host=b"", reconsume_times=0, prepared_offset=0,
        body_crc=0, body=b"", properties=b"",
    )  # fmt: skip


def test_a_full_table_is_made_in_steps_and_tells_what_holds(tmp_path: Path) -> None:
    """20,000 deliveries held up everybody for 15 ms, every few seconds."""
    store = make_store(tmp_path, ManualClock())
    store.open()
    try:
        offsets = ConsumerOffsets()
        table = SentBack(store, offsets)
        for number in range(5_000):
            table.remember(GROUP, delivery(number), LogOffset(0), dead=number % 2 == 1)
        steps = table.refresh()
        for _ in range(3):
            next(steps)
        table.set_back(GROUP, TOPIC, 0, 5_000, 10)
        table.remember(GROUP, delivery(6_000), LogOffset(100), dead=False)
        assert sum(1 for _ in steps) >= 5
        (saved,) = json.loads(table.encode())["sentBack"]
        assert (saved["tries"], saved["dead"]) == ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
        assert len(table) == 11
        offsets.commit(GROUP, TOPIC, 0, QueueOffset(5))
        table.encode()
        table.encode()
        (saved,) = json.loads(table.encode())["sentBack"]
        assert (saved["tries"], saved["dead"]) == ([6, 8], [5, 7, 9])
        assert len(table) == 6
    finally:
        store.close()


def test_what_comes_back_again_while_the_table_is_made_stays_known(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    try:
        offsets = ConsumerOffsets()
        table = SentBack(store, offsets)
        offsets.on_back.append(table.set_back)
        for number in range(1_000):
            table.remember(GROUP, delivery(number), LogOffset(0), dead=False)
        offsets.commit(GROUP, TOPIC, 0, QueueOffset(1_000))
        table.encode()
        table.encode()
        steps = table.refresh()
        next(steps)
        offsets.commit(GROUP, TOPIC, 0, QueueOffset(600))
        table.remember(GROUP, delivery(700), LogOffset(77), dead=False)
        finish(steps)
        assert table.copy_end(GROUP, delivery(700), dead=False) == 77
        assert table.copy_end(GROUP, delivery(701), dead=False) is None
        assert len(table) == 1
    finally:
        store.close()


def test_what_was_passed_after_the_offsets_were_made_ready_stays_until_they_are_saved_again(
    tmp_path: Path,
) -> None:
    """The offsets that are saved with it do not have the commit yet: after a crash it is delivered again."""
    store = make_store(tmp_path, ManualClock())
    store.open()
    try:
        offsets = ConsumerOffsets()
        table = SentBack(store, offsets)
        table.remember(GROUP, delivery(0), LogOffset(0), dead=False)
        on_disk: list[tuple[bool, bool]] = []
        for saves in range(4):
            finish(offsets.refresh())
            if saves == 1:
                offsets.commit(GROUP, TOPIC, 0, QueueOffset(1))
            known = bool(json.loads(table.encode())["sentBack"])
            on_disk.append((GROUP in offsets.table_text().whole().decode(), known))
        assert on_disk == [(False, True), (False, True), (True, True), (True, False)]
    finally:
        store.close()


def test_a_start_finds_what_very_many_groups_sent_back_in_one_look_at_each(tmp_path: Path) -> None:
    """Each group looked at the copies and the queues of all: 100,000 took minutes."""
    few_s = finish_s(tmp_path / "few", GROUPS // 10)
    assert finish_s(tmp_path / "many", GROUPS) < 30 * few_s


def finish_s(folder: Path, groups: int) -> float:
    """How long a start takes to find what so many groups sent back."""
    store = make_store(folder, ManualClock(), segment_bytes=16 << 20)
    store.open()
    try:
        for number in range(groups):
            sent = store.append(stored_message(topic=f"%RETRY%other{number}"))
            found = store.message_at(sent.log_offset)
            assert found is not None
            copy = retry_copy(found, TopicConfig(retry_topic(f"g{number}"), 1, 1), level=3)
            properties = {**decode_properties(copy.properties), "REAL_TOPIC": copy.topic, "REAL_QID": "0"}
            copy.topic, copy.queue_id, copy.properties = (
                "SCHEDULE_TOPIC_XXXX",
                2,
                encode_properties(properties),
            )
            store.append(copy)
        table = SentBack(store, ConsumerOffsets())
        for entry in store.scan(LogOffset(0)):
            table.on_message(entry)
        with no_collection():
            began_s = time.thread_time()
            table.finish()
            took_s = time.thread_time() - began_s
        assert len(table) == groups
        return took_s
    finally:
        store.close()
