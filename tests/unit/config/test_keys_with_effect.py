"""Keys that are easily parsed and forgotten: each changes what the broker does."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from rocketeer.config import BrokerConfig, StoreConfig, read_config
from rocketeer.protocol.bodies.offsets import decode_delay_offsets
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.broker import broker_at
from support.clock import ManualClock
from support.records import split_records
from support.stores import make_store, message, query

DAY_MS = 24 * 3_600_000
WAIT_S = 60


def settings(tmp_path: Path, line: str) -> StoreConfig:
    path = tmp_path / "broker.conf"
    path.write_text(line)
    return read_config(path, environment={}).store


def broker_settings(tmp_path: Path, *lines: str) -> BrokerConfig:
    path = tmp_path / "broker.conf"
    path.write_text("\n".join(lines))
    return read_config(path, environment={}).broker


async def test_without_long_polling_a_pull_waits_for_short_polling_time_mills(tmp_path: Path) -> None:
    chosen = broker_settings(tmp_path, "longPollingEnable=false", "shortPollingTimeMills=50")
    polling = {
        "long_polling_enable": chosen.long_polling_enable,
        "short_polling_ms": chosen.short_polling_ms,
    }
    async with broker_at(tmp_path / "store", broker=polling) as broker:
        await broker.send("T", b"x")
        # Held for as long as it asks, the answer would come after the client's own limit of 20 s.
        answer = await broker.pull("T", 0, 1, sysFlag=6, suspendTimeoutMillis=60_000)
        assert answer.code == ResponseCode.PULL_NOT_FOUND


async def test_region_id_is_told_with_every_send(tmp_path: Path) -> None:
    chosen = broker_settings(tmp_path, "regionId=north").region_id
    async with broker_at(tmp_path / "store", broker={"region_id": chosen}) as broker:
        assert (await broker.send("T", b"x")).ext["MSG_REGION"] == "north"


async def test_default_query_max_num_bounds_what_the_query_of_an_id_finds(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "defaultQueryMaxNum=2").query_count_max
    async with broker_at(tmp_path / "store", store={"query_count_max": chosen}) as broker:
        for number in range(4):
            await broker.send("T", b"%d" % number, properties="UNIQ_KEY\x01U\x02KEYS\x01U")
        asked = {"topic": "T", "key": "U", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": (1 << 63) - 1}
        by_key = await broker.ask(RequestCode.QUERY_MESSAGE, asked)
        by_id = await broker.ask(RequestCode.QUERY_MESSAGE, {**asked, "_UNIQUE_KEY_QUERY": "true"})
        assert [len(list(split_records(answer.body))) > 2 for answer in (by_key, by_id)] == [True, False]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("maxTransferCountOnMessageInMemory=5", (5, 8)),
        ("maxTransferBytesOnMessageInMemory=3000", (2, 8)),
        ("maxTransferCountOnMessageInDisk=5", (20, 5)),
        ("maxTransferBytesOnMessageInDisk=3000", (20, 2)),
    ],
)
def test_the_limits_of_an_answer_are_those_of_memory_or_of_the_disk(
    tmp_path: Path, line: str, found: tuple[int, int]
) -> None:
    chosen = settings(tmp_path, line)
    limits = {
        name: getattr(chosen, name)
        for name in (
            "pull_count_max_memory", "pull_bytes_max_memory", "pull_count_max_disk", "pull_bytes_max_disk"
        )
    }  # fmt: skip
    counts = []
    for ratio in (40, 0):  # percent of the memory that counts as held: all of this store, or nothing
        store = make_store(tmp_path / str(ratio), memory_ratio=ratio, **limits)
        store.open()
        for _ in range(20):
            store.append(message(b"x" * 1000))
        counts.append(store.get("TopicTest", 0, 0, 32).count)
        store.close()
    assert tuple(counts) == found


@pytest.mark.parametrize("most", [1, 3, 64])
def test_max_msgs_num_batch_bounds_what_a_query_finds(tmp_path: Path, most: int) -> None:
    chosen = settings(tmp_path, f"maxMsgsNumBatch={most}").query_batch_max
    store = make_store(tmp_path / "store", query_batch_max=chosen)
    store.open()
    for number in range(10):
        store.append(message(b"%d" % number, keys="k"))
    found = query(store, "TopicTest", "k", 0, 1 << 62, 100).messages
    assert [each.body for each in found] == [b"%d" % number for number in range(10)][-most:], "the newest"
    store.close()


@pytest.mark.parametrize("pause_ms", [0, 60_000])
def test_delete_consume_queue_files_interval_is_the_pause_between_deletions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause_ms: int
) -> None:
    chosen = settings(tmp_path, f"deleteConsumeQueueFilesInterval={pause_ms}").delete_queue_interval_ms
    monkeypatch.setattr("rocketeer.store.cleaning._FOLLOW_QUEUES", 1)  # queues a step: a real one has many
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock, delete_queue_interval_ms=chosen, reserved_hours=1)
    store.open()
    for number in range(600):  # more than a file in each of three queues, and more than a file of the log
        store.append(message(b"x" * 400, queue_id=number % 3))
    folder = tmp_path / "store" / "consumequeue" / "TopicTest"
    store.queue_table.write_out()
    for segment in store.log.segments:
        os.utime(segment.path, ns=(0, clock.now_ms() * 1_000_000))
    clock.advance(ms=2 * DAY_MS)

    def first_files() -> int:
        return sum((folder / str(queue) / f"{0:020d}").exists() for queue in range(3))

    def tick_until(left: int) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while first_files() > left:
            assert time.monotonic() < deadline_s, f"{first_files()} files are left"
            store.tick()
            time.sleep(0.001)  # a worker thread deletes

    assert first_files() == 3
    store.delete_expired()
    while len(store.log.segments) > 1:
        clock.advance(ms=10)
        store.tick()
    if pause_ms:
        for left in (2, 1, 0):
            tick_until(left)
            for _ in range(200):
                store.tick()
            assert first_files() == left, "the next one has to wait"
            clock.advance(ms=pause_ms)
    else:
        tick_until(0)
    store.close()


async def test_flush_delay_offset_interval_is_the_pause_between_two_writings_of_the_table(
    tmp_path: Path,
) -> None:
    chosen = settings(tmp_path, "flushDelayOffsetInterval=3600000").flush_delay_offset_ms
    clock = ManualClock()
    table = tmp_path / "store" / "config" / "delayOffset.json"

    def delivered() -> int:
        return decode_delay_offsets(table.read_bytes()).get(1, 0) if table.exists() else 0

    async def until(wanted: int) -> None:
        for _ in range(WAIT_S * 50):
            if delivered() == wanted:
                return
            clock.advance(ms=60_000)  # what was not synced at one writing waits for the next
            await asyncio.sleep(0.02)
        raise AssertionError(f"the table says {delivered()}")

    async with broker_at(
        tmp_path / "store",
        clock=clock,
        store={"flush_delay_offset_ms": chosen},
        broker={"flush_consumer_offset_ms": 20},  # how often tables are looked at
    ) as broker:
        for number in range(3):
            await broker.send("T", b"x", properties="DELAY\x011")
            clock.advance(ms=1_000)
            await broker.messages("T", 0, number, sysFlag=6, suspendTimeoutMillis=15_000)
        await asyncio.sleep(0.5)
        early = delivered()
        assert early < 3, "three deliveries within an hour are not three writings"
        clock.advance(ms=3_600_000)
        await until(3)
