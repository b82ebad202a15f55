"""Nothing that is derived is on disk ahead of the log it speaks of: tables, offsets, snapshots."""

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.broker.features.timer.feature import Timers
from rocketeer.broker.features.timer.snapshot import read_snapshot
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.writer import Writer
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode
from rocketeer.store.dispatch import Dispatcher
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock
from support.stores import make_store, message
from support.stuck_disk import StuckDisk

OFTEN = {"flush_consumer_offset_ms": 20}


async def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.01)


async def commit(broker: BrokerUnderTest, offset: int) -> None:
    header = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": offset}
    assert (await broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == 0


async def committed(broker: BrokerUnderTest) -> int:
    header = {"consumerGroup": "CG", "topic": "T", "queueId": 0}
    answer = await broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
    return int(answer.ext["offset"])


def saved(folder: Path) -> int | None:
    path = folder / "config" / "consumerOffset.json"
    if not path.exists():
        return None
    offsets = ConsumerOffsets()
    offsets.decode(path.read_text())
    return offsets.query("CG", "T", 0)


async def test_consumer_offsets_reach_the_disk_after_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = StuckDisk(monkeypatch)
    async with broker_at(tmp_path, broker=OFTEN) as broker:
        for number in range(3):
            await broker.send("T", b"%d" % number)
        await commit(broker, 1)
        await until(lambda: saved(tmp_path) == 1)
        disk.stuck = True
        for number in range(3, 9):
            await broker.send("T", b"%d" % number)
        await commit(broker, 9)
        await asyncio.sleep(0.3)  # fifteen times the interval
        assert saved(tmp_path) == 1, "the disk may not have what the group has consumed"
        disk.stuck = False
        await until(lambda: saved(tmp_path) == 9)


async def test_a_group_that_stands_behind_the_end_of_a_queue_skips_nothing(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        for number in range(5):
            await broker.send("T", b"%d" % number)
        await commit(broker, 5)
    for folder in ("commitlog", "consumequeue", "index"):  # the disk has lost it all, but for the tables
        shutil.rmtree(tmp_path / folder)
    async with broker_at(tmp_path) as broker:
        assert await committed(broker) == 0
        await broker.send("T", b"new")
        (found,) = await broker.messages("T", 0, await committed(broker))
        assert found.body == b"new"


async def test_a_timer_snapshot_waits_for_what_was_rolled_forward_while_it_was_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = StuckDisk(monkeypatch)
    clock = ManualClock()
    loop = asyncio.get_running_loop()
    store = make_store(
        tmp_path / "store",
        clock,
        post=lambda job: loop.call_soon_threadsafe(job) and None,
        flush_interval_ms=1,
    )
    store.open()
    path = tmp_path / "pending"
    timers = Timers(path, store, Writer(store, message_bytes_max=1 << 20, counters=Counters()), clock)
    store.dispatchers.append(Dispatcher(timers.delivery.stored, topics=frozenset({TIMER_TOPIC})))
    offsets = []
    for number in range(50):
        due = clock.now_ms() + 3_600_000 + number * 60_000
        waiting = {"TIMER_OUT_MS": str(due), "REAL_TOPIC": "T", "REAL_QID": "0"}
        offsets.append(store.append(message(b"%d" % number, TIMER_TOPIC, properties=waiting)).log_offset)
    await until(lambda: store.flushed_log_offset == store.max_log_offset)
    before = store.max_log_offset
    disk.stuck = True
    writing = asyncio.ensure_future(timers.snapshot())
    await asyncio.sleep(0)  # some buckets are copied
    assert timers.delivery.roll(before)
    await asyncio.sleep(0.2)
    if path.exists():  # then it must hold without the records that are not on disk
        rows = read_snapshot(path).rows
        assert sorted(rows["offset"][rows["offset"] >= 0]) == sorted(offsets), "timers lost"
    disk.stuck = False
    await writing
    assert path.exists()
    store.close()


async def test_every_saved_table_says_where_delays_stand_before_one_is_handed_over(tmp_path: Path) -> None:
    async with broker_at(tmp_path, broker=OFTEN) as broker:
        await broker.send("T", b"x")
        path = tmp_path / "config" / "delayOffset.json"
        await until(path.exists)
        assert "logOffset" in json.loads(path.read_text())


def queues_on_disk(folder: Path, topic: str) -> int | None:
    path = folder / "config" / "topics.json"
    table = json.loads(path.read_text())["topicConfigTable"] if path.exists() else {}
    return table[topic]["writeQueueNums"] if topic in table else None


async def test_a_topic_does_not_wait_for_the_log_to_be_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies right after the first message leaves all queues of the topic, not only the one used."""
    disk = StuckDisk(monkeypatch)
    async with broker_at(tmp_path / "store", broker=OFTEN) as broker:
        await broker.send("Before", b"x")
        await until(lambda: queues_on_disk(tmp_path / "store", "Before") == 4)
        disk.stuck = True
        await commit(broker, 1)
        await asyncio.sleep(0.1)  # five times the interval: other tables wait for the log by now
        await broker.send("New", b"x")
        await until(lambda: queues_on_disk(tmp_path / "store", "New") == 4)
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
        disk.stuck = False
    async with broker_at(tmp_path / "copy") as broker:
        table = json.loads((await broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body)["topicConfigTable"]
        assert table["New"]["writeQueueNums"] == 4
        (found,) = await broker.messages("New")
        assert found.body == b"x"


async def test_that_a_topic_is_gone_waits_for_the_log_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = StuckDisk(monkeypatch)
    async with broker_at(tmp_path, broker=OFTEN) as broker:
        await broker.send("T", b"x")
        await until(lambda: queues_on_disk(tmp_path, "T") == 4)
        disk.stuck = True
        deleting = asyncio.ensure_future(broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}))
        await broker.send("Other", b"x")
        await asyncio.sleep(0.3)
        assert not deleting.done()
        assert queues_on_disk(tmp_path, "T") == 4
        disk.stuck = False
        assert (await deleting).code == 0
        assert queues_on_disk(tmp_path, "T") is None
        await until(lambda: queues_on_disk(tmp_path, "Other") == 4)
