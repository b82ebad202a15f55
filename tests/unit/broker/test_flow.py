"""Flow control: begins when requests wait, turns sends away in RocketMQ's words, ends by itself."""

import asyncio
import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.features.flow import FlowControl, WaitLimits
from rocketeer.errors import RequestRefused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import request
from rocketeer.remoting.router import TemporaryGuard
from rocketeer.store.commit_log import CommitLog
from support.broker import broker_at
from support.stores import message, open_store

NOBODY: Any = None
LIMITS = WaitLimits(send_ms=200, pull_ms=5000, heartbeat_ms=31_000, transaction_ms=3000)


class Bench:
    """A flow control whose probe comes when told."""

    def __init__(self, limits: WaitLimits = LIMITS) -> None:
        self.now_s = 0.0
        self.guard: TemporaryGuard | None = None
        self.append_s = 0.0
        self.control = FlowControl(
            limits,
            page_cache_busy_ms=1000,
            longest_append_s=self._take_append_s,
            now_s=lambda: self.now_s,
            probe_s=0.02,
        )
        self.control.on_limiting.append(self._set)
        self.control.beat()

    def _take_append_s(self) -> float:
        taken_s, self.append_s = self.append_s, 0.0
        return taken_s

    def _set(self, guard: TemporaryGuard | None) -> None:
        self.guard = guard

    def beat(self, late_ms: int = 0) -> None:
        self.now_s += 0.02 + late_ms / 1000 + 1e-6
        self.control.beat()

    def refusal(self, code: int) -> str | None:
        if self.guard is None:
            return None
        try:
            self.guard(request(code), NOBODY)
        except RequestRefused as refusal:
            return refusal.remark if refusal.code == ResponseCode.SYSTEM_BUSY else f"code {refusal.code}"
        return None


def test_one_late_turn_is_over_and_two_are_a_queue() -> None:
    bench = Bench()
    bench.beat()
    bench.beat(late_ms=900)
    assert bench.guard is None, "what it held up is served by now"
    bench.beat(late_ms=100)
    bench.beat(late_ms=199)
    assert bench.guard is None
    bench.beat(late_ms=200)
    bench.beat(late_ms=250)
    text = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 250ms, size of queue: "
    assert bench.refusal(RequestCode.SEND_MESSAGE_V2) == f"{text}1"
    assert bench.refusal(RequestCode.SEND_BATCH_MESSAGE) == f"{text}2"
    bench.beat(late_ms=300)
    assert "period in queue: 300ms" in (bench.refusal(RequestCode.SEND_MESSAGE) or "")
    bench.beat()
    assert bench.guard is None


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.HEART_BEAT, RequestCode.PULL_MESSAGE, RequestCode.GET_MAX_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.END_TRANSACTION,
    ],
)  # fmt: skip
def test_only_sends_are_turned_away(code: int) -> None:
    bench = Bench()
    bench.beat(late_ms=400)
    bench.beat(late_ms=400)
    assert bench.guard is not None
    assert bench.refusal(code) is None


@pytest.mark.parametrize(
    ("code", "limit_ms"),
    [
        (RequestCode.END_TRANSACTION, 3000),
        (RequestCode.PULL_MESSAGE, 5000),
        (RequestCode.HEART_BEAT, 31_000),
    ],
)
def test_others_have_a_longer_patience(code: int, limit_ms: int) -> None:
    bench = Bench()
    for _ in range(2):
        bench.beat(late_ms=limit_ms - 1)
    assert bench.refusal(code) is None
    bench.beat(late_ms=limit_ms)
    text = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: "
    assert (bench.refusal(code) or "").startswith(f"{text}{limit_ms}ms, size of queue: ")
    assert bench.refusal(RequestCode.GET_BROKER_CONFIG) is None
    bench.beat()
    assert bench.guard is None


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (dataclasses.replace(LIMITS, heartbeat_ms=50), RequestCode.HEART_BEAT),
        (dataclasses.replace(LIMITS, transaction_ms=50), RequestCode.END_TRANSACTION),
        (dataclasses.replace(LIMITS, pull_ms=50), RequestCode.PULL_MESSAGE),
    ],
)
def test_each_kind_has_a_limit_of_its_own(limits: WaitLimits, code: int) -> None:
    bench = Bench(limits)
    for _ in range(2):
        bench.beat(late_ms=100)
    assert "period in queue: 100ms" in (bench.refusal(code) or "")
    assert bench.refusal(RequestCode.SEND_MESSAGE_V2) is None


def test_behind_a_stall_only_sends_are_turned_away() -> None:
    bench = Bench(dataclasses.replace(LIMITS, send_ms=5000))
    bench.append_s = 1.5
    bench.beat(late_ms=1500)
    assert (bench.refusal(RequestCode.SEND_MESSAGE_V2) or "").startswith("[PCBUSY_CLEAN_QUEUE]broker busy")
    assert bench.refusal(RequestCode.PULL_MESSAGE) is None
    assert bench.refusal(RequestCode.HEART_BEAT) is None


def test_a_stall_while_storing_turns_away_what_queued_up_behind_it() -> None:
    bench = Bench()
    bench.append_s = 0.999
    bench.beat()
    assert bench.guard is None
    bench.append_s = 1.2
    bench.beat(late_ms=1210)
    text = "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 1210ms"
    assert (bench.refusal(RequestCode.SEND_MESSAGE_V2) or "").startswith(text)
    bench.beat()
    assert bench.guard is None


def test_the_log_says_itself_how_long_its_slowest_append_took(tmp_path: Path) -> None:
    """Whatever else holds up the loop is not the disk's fault, and turns nobody away."""

    class SlowLog(CommitLog):
        __slots__ = ()

        def write(self, offset: int, data: Any) -> None:
            time.sleep(0.05)
            super().write(offset, data)

    store, _ = open_store(tmp_path)
    store.append(message())
    store.log.take_longest_append_s()
    time.sleep(0.05)  # the loop hangs, but in no append
    assert store.log.take_longest_append_s() == 0.0
    store.log.__class__ = SlowLog
    store.append(message())
    assert store.log.take_longest_append_s() >= 0.05
    assert store.log.take_longest_append_s() == 0.0, "each is told once"
    store.close()


async def test_a_busy_broker_refuses_sends_serves_the_rest_and_recovers(tmp_path: Path) -> None:
    async with broker_at(tmp_path, broker={"send_wait_ms_max": 60}) as broker:
        while (await broker.send("T", b"before")).code:  # noqa: ASYNC110  the machine may be busy by itself
            await asyncio.sleep(0.01)
        codes: dict[int, str] = {}

        async def keep_sending() -> None:
            while ResponseCode.SYSTEM_BUSY not in codes:
                answer = await broker.send("T", b"x")
                codes[answer.code] = answer.remark or ""

        async def hold_up_the_loop() -> None:
            while ResponseCode.SYSTEM_BUSY not in codes:
                time.sleep(0.15)  # noqa: ASYNC251 this is what is tested: a loop that is late, turn after turn
                await asyncio.sleep(0)

        hold = asyncio.create_task(hold_up_the_loop())
        sending = [asyncio.create_task(keep_sending()) for _ in range(4)]
        await asyncio.wait_for(asyncio.gather(*sending), 60)
        assert codes[ResponseCode.SYSTEM_BUSY].startswith(
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: "
        )
        heartbeat = {"topic": "T", "queueId": 0}
        assert (await broker.ask(RequestCode.GET_MAX_OFFSET, heartbeat)).code == 0
        await hold
        for _ in range(1000):
            if (await broker.send("T", b"after")).code == 0:
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError("it never recovered")
        stored = int((await broker.ask(RequestCode.GET_MAX_OFFSET, heartbeat)).ext["offset"])
        bodies = [m.body for at in range(0, stored, 32) for m in await broker.messages("T", offset=at)]
        assert bodies[0] == b"before"
        assert bodies[-1] == b"after"


async def test_flow_control_can_be_turned_off(tmp_path: Path) -> None:
    options = {"send_wait_ms_max": 20, "fast_failure_enable": False}
    async with broker_at(tmp_path, broker=options) as broker:
        for _ in range(5):
            sending = asyncio.create_task(broker.send("T", b"x"))
            await asyncio.sleep(0)
            time.sleep(0.1)  # noqa: ASYNC251
            assert (await sending).code == 0
