"""Somebody sets the machine's clock: delays stay as long as they are, locks and clients as alive as they were."""

import asyncio
import json
from pathlib import Path

import pytest

from rocketeer.clock import SystemClock
from rocketeer.protocol.codes import RequestCode
from rocketeer.store.retention import RetentionPlan, RetentionRules, SegmentAge
from support.broker import broker_at

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
