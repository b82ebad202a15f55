"""Somebody sets the machine's clock: delays stay as long as they are, locks and clients as alive as they were."""

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from rocketeer.clock import SystemClock
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from rocketeer.store.expiry_clock import ExpiryClock
from rocketeer.store.message_store import MessageStore
from rocketeer.store.retention import RetentionPlan, RetentionRules, SegmentAge
from support.broker import broker_at
from support.clock import ManualClock
from support.stores import make_store, message

HOUR_MS = 3_600_000
WAIT_S = 30


class SetClock(SystemClock):
    """The real time, with a wall clock that can be set."""

    shift_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_delayed_message_comes_whatever_the_clock_says(tmp_path: Path, hours: int) -> None:
    clock = SetClock()
    levels = {"delay_levels": "1s 2s 3s"}
    async with broker_at(tmp_path, clock=clock, store=levels) as broker:
        await broker.send("Later", b"first", properties="DELAY\x012")
        await asyncio.sleep(0.1)  # the service has seen when it is due
        clock.shift_ms = hours * HOUR_MS
        await broker.send("Later", b"second", properties="DELAY\x012")
        async with asyncio.timeout(WAIT_S):
            while len(messages := await broker.messages("Later")) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert [message.body for message in messages] == [b"first", b"second"]


async def test_a_clock_set_forward_takes_no_queue_from_its_owner(tmp_path: Path) -> None:
    clock = SetClock()

    async def lock(client_id: str) -> list[object]:
        queues = [{"brokerName": "broker-a", "queueId": 0, "topic": "T"}]
        body = {"consumerGroup": "G", "clientId": client_id, "mqSet": queues}
        reply = await broker.ask(RequestCode.LOCK_BATCH_MQ, body=json.dumps(body).encode())
        locked: list[object] = json.loads(reply.body)["lockOKMQSet"]
        return locked

    async with broker_at(tmp_path, clock=clock) as broker:
        assert await lock("a")
        for hours in (1, -1):
            clock.shift_ms = hours * HOUR_MS
            assert await lock("b") == []
            assert await lock("a")


def test_files_go_on_being_deleted_after_the_clock_was_set_back() -> None:
    plan = RetentionPlan(RetentionRules(), start_ms=100 * HOUR_MS)
    segments = [SegmentAge(0, 0), SegmentAge(1, 0), SegmentAge(2, 0)]

    def dropped(now_ms: int) -> int | None:
        return plan.next(now_ms, hour=12, used_percent=88, segments=segments).drop

    now_ms = 100 * HOUR_MS + 60_000
    assert dropped(now_ms) == 0
    assert dropped(now_ms - 24 * HOUR_MS) == 0, (
        "a full disk does not wait a day for the old time to come back"
    )
    assert dropped(now_ms - 24 * HOUR_MS + 50) is None, "the pause between two files is kept"
    assert dropped(now_ms - 24 * HOUR_MS + 100) == 0


# --- a clock that jumps ahead ---------------------------------------------------------------------


class JumpingClock(ManualClock):
    """Time passes by `advance`; `jump` only sets the wall clock."""

    def __init__(self, jumped_ms: int = 0) -> None:
        super().__init__()
        self.jumped_ms = jumped_ms

    def jump(self, ms: int) -> None:
        self.jumped_ms += ms

    def now_ms(self) -> int:
        return super().now_ms() + self.jumped_ms


def test_a_jump_is_believed_as_fast_as_time_confirms_it() -> None:
    clock = JumpingClock()
    expiry = ExpiryClock(clock, 0)
    clock.advance(ms=HOUR_MS)
    clock.jump(60_000)
    assert expiry.now_ms() == clock.now_ms(), "a minute is nothing"
    before_ms = expiry.now_ms()
    clock.jump(73 * HOUR_MS)
    assert expiry.now_ms() == before_ms
    for _ in range(72):
        clock.advance(ms=HOUR_MS)
        expiry.now_ms()
    assert expiry.now_ms() == before_ms + 144 * HOUR_MS
    for _ in range(2):
        clock.advance(ms=HOUR_MS)
        expiry.now_ms()
    assert expiry.now_ms() == clock.now_ms(), "reached"
    clock.jump(-5 * HOUR_MS)
    assert expiry.now_ms() == clock.now_ms(), "set back: followed"


def filled_files(folder: Path, clock: JumpingClock) -> MessageStore:
    store = make_store(
        folder, clock, delete_when="0;1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23"
    )
    store.open()
    while len(store.log.segments) < 5:
        store.append(message(b"x" * 4000))
    for segment in store.log.segments:
        os.utime(segment.path, ns=(0, ManualClock().now_ms() * 1_000_000))
    return store


def let_work(store: MessageStore, clock: JumpingClock) -> None:
    for _ in range(80):
        clock.advance(ms=1_100)
        store.tick()
        time.sleep(0.001)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_jumps_ahead_deletes_no_file(tmp_path: Path, restarted: bool) -> None:
    clock = JumpingClock()
    store = filled_files(tmp_path, clock)
    clock.jump(73 * HOUR_MS)
    store.append(message(b"stored after the jump"))
    if restarted:
        store.close()
        clock = JumpingClock(73 * HOUR_MS)
        store = make_store(tmp_path, clock, delete_when=store.config.delete_when)
        store.open()
    let_work(store, clock)
    assert store.min_log_offset == 0
    for _ in range(74):  # time passes: now they are old
        clock.advance(ms=HOUR_MS)
        store.tick()
    give_up_s = time.monotonic() + WAIT_S
    while not store.min_log_offset:
        assert time.monotonic() < give_up_s, "old files are still there"
        let_work(store, clock)
    store.close()


async def test_a_clock_that_jumps_ahead_forgets_no_idempotent_producer(tmp_path: Path) -> None:
    clock = JumpingClock()

    async def send(number: int) -> Command:
        return await broker.send(
            "T", b"%d" % number, properties=f"PRODUCER_ID\x01P\x02PRODUCER_SEQ\x01{number}"
        )

    async with broker_at(tmp_path, clock=clock) as broker:
        for number in range(3):
            assert (await send(number)).code == 0
        clock.jump(200 * HOUR_MS)
        clock.advance(ms=10_000)
        await asyncio.sleep(0.1)
        assert (await send(2)).ext["queueOffset"] == "2"
    async with broker_at(tmp_path, clock=clock) as broker:
        assert (await send(2)).ext["queueOffset"] == "2", "known, not stored again"
        assert len(await broker.messages("T")) == 3
