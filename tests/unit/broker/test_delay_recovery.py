"""Delays end once: whatever offsets a crash left behind, the log tells what was delivered."""

import asyncio
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock

COUNT = 40
LEVELS = (1, 2, 3)


async def everything(broker: BrokerUnderTest, topic: str = "T", queues: int = 4) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for queue_id in range(queues):
        offset = 0
        while messages := await broker.messages(topic, queue_id, offset):
            found.update(message.body for message in messages)
            offset += len(messages)
    return found


async def settle(broker: BrokerUnderTest, count: int) -> Counter[bytes]:
    """Wait until so many have arrived, and a little longer for those that should not."""
    for _ in range(500):
        if (await everything(broker)).total() >= count:
            break
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    return await everything(broker)


async def send_all(broker: BrokerUnderTest) -> set[bytes]:
    bodies = set()
    for number in range(COUNT):
        for level in LEVELS:
            body = b"%d-%d" % (level, number)
            bodies.add(body)
            # No UNIQ_KEY, all born in one millisecond: only bodies tell some of them apart.
            answer = await broker.send("T", body, queue_id=number % 4, properties=f"DELAY\x01{level}")
            assert answer.code == 0
    return bodies


def table_of(folder: Path) -> Path:
    return folder / "config" / "delayOffset.json"


def as_java_wrote_it(text: str, less: int) -> str:
    """Without the place in the log; Java's offsets are those of the last delivered messages."""
    bare = text.replace("\n", "").replace("\t", "")
    table = dict(re.findall(r"(\d+):(\d+)", bare))
    return json.dumps({"offsetTable": {level: max(int(offset) - less, 0) for level, offset in table.items()}})


@pytest.mark.parametrize("lag", ["nothing saved", "first level", "java", "java off by one", "java crashed"])
async def test_whatever_offsets_are_found_nothing_is_delivered_twice(tmp_path: Path, lag: str) -> None:
    clock = ManualClock()
    store = tmp_path / "store"
    async with broker_at(store, clock=clock) as broker:
        sent = await send_all(broker)
    saved = table_of(store).read_text() if table_of(store).exists() else '{"offsetTable":{},"logOffset":0}'
    clock.advance(ms=1_000)
    async with broker_at(store, clock=clock) as broker:
        assert (await settle(broker, COUNT)).total() == COUNT, "level 1"
    after_first = table_of(store).read_text()
    clock.advance(ms=5_000)
    async with broker_at(store, clock=clock) as broker:
        await settle(broker, 2 * COUNT)
    java = table_of(store).read_text()
    crashed = {
        "nothing saved": saved,
        "first level": after_first,
        "java": as_java_wrote_it(java, 0),
        "java off by one": as_java_wrote_it(java, 1),
        "java crashed": as_java_wrote_it(after_first, 1),
    }[lag]
    table_of(store).write_text(crashed)
    (store / "abort").touch()
    async with broker_at(store, clock=clock) as broker:
        found = await settle(broker, 2 * COUNT)
        assert found.total() == 2 * COUNT, "levels 1 and 2, nothing again"
        clock.advance(ms=10_000)
        assert await settle(broker, 3 * COUNT) == Counter(sent)


async def test_a_message_delivered_only_in_part_of_its_level_is_not_skipped(tmp_path: Path) -> None:
    """Twins (the same body, the same moment): as many as were sent, however the broker dies."""
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        for _ in range(5):
            await broker.send("T", b"twin", properties="DELAY\x011")
        clock.advance(ms=500)
        for _ in range(4):
            await broker.send("T", b"twin", properties="DELAY\x011")
        clock.advance(ms=500)
        await settle(broker, 5)
    table_of(tmp_path).write_text('{"offsetTable":{},"logOffset":0}')
    async with broker_at(tmp_path, clock=clock) as broker:
        assert (await settle(broker, 5)).total() == 5
        clock.advance(ms=500)
        assert (await settle(broker, 9)).total() == 9


async def test_the_file_stays_java_s_and_says_where_the_log_ended(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        await broker.send("T", b"x", properties="DELAY\x011")
        clock.advance(ms=1_000)
        await settle(broker, 1)
    text = re.sub(r"\s", "", table_of(tmp_path).read_text())
    assert re.fullmatch(r'\{"offsetTable":\{1:1\},"logOffset":\d+\}', text), (
        "unquoted keys, as fastjson writes"
    )


async def test_levels_that_are_gone_from_the_table_still_deliver(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock, store={"delay_levels": "1s 2s 1h"}) as broker:
        await broker.send("T", b"long", properties="DELAY\x013")
        await broker.send("T", b"short", properties="DELAY\x011")
    async with broker_at(tmp_path, clock=clock, store={"delay_levels": "1s 2s"}) as broker:
        clock.advance(ms=2_000)
        assert await settle(broker, 2) == Counter([b"long", b"short"]), "no longer than the longest level"


@pytest.mark.parametrize("level", ["abc", "1.5", "99999999999", "-", "٣"])
async def test_a_delay_that_is_no_number_is_refused_and_nothing_is_stored(tmp_path: Path, level: str) -> None:
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        refused = await broker.send("T", b"x", properties=f"DELAY\x01{level}")
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert "a delay level is a whole number" in (refused.remark or "")
        assert not await everything(broker)


@pytest.mark.parametrize("level", ["0", "-1", "-5"])
async def test_a_level_from_zero_down_means_no_delay(tmp_path: Path, level: str) -> None:
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        assert (await broker.send("T", b"x", properties=f"DELAY\x01{level}")).code == 0
        assert (await everything(broker)).total() == 1


async def test_a_retry_is_delivered_once_over_a_crash(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        await broker.send("T", b"failed")
        (message,) = await broker.messages("T")
        header = {"offset": message.log_offset, "group": "CG", "delayLevel": 1, "maxReconsumeTimes": 9}
        assert (await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code == 0
        clock.advance(ms=1_000)
        (again,) = await broker.messages("%RETRY%CG", sysFlag=6, suspendTimeoutMillis=15_000)
        assert again.reconsume_times == 1
    table_of(tmp_path).write_text('{"offsetTable":{},"logOffset":0}')
    async with broker_at(tmp_path, clock=clock) as broker:
        await asyncio.sleep(0.2)
        assert len(await broker.messages("%RETRY%CG")) == 1


async def test_any_cut_of_the_log_behind_the_saved_offsets_delivers_each_once(tmp_path: Path) -> None:
    """As a kill at any moment leaves it: the log up to some record, the offsets from before."""
    clock = ManualClock()
    store = tmp_path / "store"
    async with broker_at(store, clock=clock) as broker:
        for number in range(6):
            await broker.send("T", b"%d" % number, properties=f"DELAY\x011\x02UNIQ_KEY\x01U{number}")
        saved = await broker.messages("SCHEDULE_TOPIC_XXXX", 0)
        clock.advance(ms=1_000)
        await settle(broker, 6)
        copies = await broker.messages("T")
    for kept in range(7):
        end = copies[kept].log_offset if kept < 6 else copies[-1].log_offset + copies[-1].size
        folder = tmp_path / f"cut{kept}"
        shutil.copytree(store, folder)
        log = folder / "commitlog" / f"{0:020}"
        raw = log.read_bytes()
        log.write_bytes(raw[:end].ljust(len(raw), b"\0"))
        shutil.rmtree(folder / "consumequeue")
        (folder / "checkpoint").unlink()
        shutil.rmtree(folder / "index")
        end_of_sends = saved[-1].log_offset + saved[-1].size
        table_of(folder).write_text(json.dumps({"offsetTable": {}, "logOffset": end_of_sends}))
        (folder / "abort").touch()
        async with broker_at(folder, clock=clock) as broker:
            assert await settle(broker, 6) == Counter(b"%d" % number for number in range(6)), kept
