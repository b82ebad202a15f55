"""Messages timed by RocketMQ 5's properties: stored, delivered, refused and recalled as it does, on a clock of ours."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.recall_handle import RecallHandle
from rocketeer.record.layout import StoredMessage
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock

TIMER_TOPIC = "rmq_sys_wheel_timer"
DAY_MS = 86_400_000
NOW = ManualClock().now_ms()


async def arrival(broker: BrokerUnderTest, topic: str, offset: int = 0, queue_id: int = 0) -> StoredMessage:
    """The next message of a queue, held for it rather than slept for."""
    answer = await broker.messages(topic, queue_id, offset, sysFlag=6, suspendTimeoutMillis=15_000)
    assert answer, f"nothing arrived in {topic}"
    return answer[0]


async def everything(broker: BrokerUnderTest, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    while more := await broker.messages(topic, queue_id, len(found)):
        found += more
    return found


async def arrivals(broker: BrokerUnderTest, topic: str, count: int) -> list[StoredMessage]:
    """The messages of a queue as soon as there are so many."""
    for at in range(count):
        await arrival(broker, topic, at)
    return await everything(broker, topic)


async def settle() -> None:
    """Many ticks of the delivery: whatever is due has been delivered."""
    await asyncio.sleep(0.1)


async def send_timed(
    broker: BrokerUnderTest, body: bytes = b"x", *, topic: str = "T", uniq: str = "U1", **timing: object
) -> Command:
    timed = "".join(f"\x02{name}\x01{value}" for name, value in timing.items())
    return await broker.send(
        topic, body, properties=f"KEYS\x01k\x02UNIQ_KEY\x01{uniq}\x02WAIT\x01true{timed}"
    )


async def recall(broker: BrokerUnderTest, handle: str, topic: str = "T") -> Command:
    return await broker.ask(
        RequestCode.RECALL_MESSAGE, {"producerGroup": "PG", "topic": topic, "recallHandle": handle}
    )


@pytest.mark.parametrize(
    ("timing", "due_ms"),
    [
        ({"TIMER_DELIVER_MS": NOW + 90_001}, NOW + 90_001),
        ({"TIMER_DELAY_MS": 1_234}, NOW + 1_234),
        ({"TIMER_DELAY_SEC": 7}, NOW + 7_000),
        ({"TIMER_DELAY_SEC": "+7"}, NOW + 7_000),
        ({"TIMER_DELAY_SEC": 7, "TIMER_DELAY_MS": 1, "TIMER_DELIVER_MS": NOW + 2}, NOW + 7_000),
        ({"TIMER_DELAY_MS": 40 * DAY_MS}, NOW + 40 * DAY_MS),
        ({"__STARTDELIVERTIME": NOW + 3_000}, NOW + 3_000),
        ({"__STARTDELIVERTIME": NOW + 9, "TIMER_DELIVER_MS": NOW + 3_000}, NOW + 3_000),
    ],
)
async def test_a_timed_message_waits_and_comes_to_its_topic_and_queue_at_its_time(
    tmp_path: Path, timing: dict[str, object], due_ms: int
) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        sent = await broker.send(
            "T", b"body", queue_id=2, properties="".join(f"{k}\x01{v}\x02" for k, v in timing.items())
        )
        assert (sent.code, sent.ext["queueId"]) == (0, "2"), "the sender is told the queue it chose"
        (waiting,) = await broker.messages(TIMER_TOPIC)
        noted = {"TIMER_OUT_MS": str(due_ms), "REAL_TOPIC": "T", "REAL_QID": "2"}
        asked = {name: str(value) for name, value in timing.items()}
        assert waiting.properties_dict() == {**asked, **noted, "CLUSTER": "DefaultCluster"}
        clock.advance(ms=due_ms - NOW - 1)
        await settle()
        assert await broker.messages("T", 2) == [], "one millisecond too early"
        clock.advance(ms=1)
        message = await arrival(broker, "T", queue_id=2)
        assert message.body == b"body"
        assert message.properties_dict() == {
            **waiting.properties_dict(),
            "TIMER_ENQUEUE_MS": str(NOW),
            "TIMER_DEQUEUE_MS": str(due_ms),
        }


@pytest.mark.parametrize(
    "timing",
    [
        {"TIMER_DELIVER_MS": NOW - 1},
        {"TIMER_DELIVER_MS": NOW},
        {"TIMER_DELIVER_MS": 0},
        {"TIMER_DELIVER_MS": -(1 << 63)},
        {"TIMER_DELAY_MS": 0},
        {"TIMER_DELAY_MS": -5},
        {"TIMER_DELAY_SEC": -(10**18)},
        {"__STARTDELIVERTIME": NOW},
        {"__STARTDELIVERTIME": -5},
    ],
)
async def test_a_time_in_the_past_delivers_at_once(tmp_path: Path, timing: dict[str, object]) -> None:
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        sent = await send_timed(broker, **timing)
        assert sent.code == 0
        assert "recallHandle" not in sent.ext
        assert [message.body for message in await broker.messages("T")] == [b"x"]
        assert await broker.messages(TIMER_TOPIC) == []


YEAR_9999_MS = 253_370_764_800_000


@pytest.mark.parametrize(
    "timing",
    [
        {"TIMER_DELIVER_MS": YEAR_9999_MS},
        {"TIMER_DELIVER_MS": 1 << 62},
        {"TIMER_DELIVER_MS": 1 << 63},
        {"TIMER_DELIVER_MS": 10**40},
        {"TIMER_DELIVER_MS": "tomorrow"},
        {"TIMER_DELIVER_MS": "1.5"},
        {"TIMER_DELIVER_MS": " 5"},
        {"TIMER_DELIVER_MS": "\u0661\u0662"},
        {"TIMER_DELAY_SEC": (1 << 63) - 1},
        {"TIMER_DELAY_MS": 367 * DAY_MS},
        {"TIMER_DELAY_SEC": "x", "TIMER_DELAY_MS": 5},
        {"__STARTDELIVERTIME": "tomorrow"},
        {"__STARTDELIVERTIME": NOW + 367 * DAY_MS},
    ],
)
async def test_a_time_that_cannot_be_is_refused_with_the_words_of_rocketmq_5(
    tmp_path: Path, timing: dict[str, object]
) -> None:
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        answer = await send_timed(broker, **timing)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert (answer.remark or "").startswith(
            "timer message illegal, the delay time should not be bigger than the max delay 31622400000ms"
        )
        assert await broker.messages("T") == []
        assert await broker.messages(TIMER_TOPIC) == []


async def test_a_delay_level_beats_a_timer_and_takes_its_properties_away(tmp_path: Path) -> None:
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        await send_timed(broker, DELAY=2, TIMER_DELAY_MS=5, TIMER_DELIVER_MS="nonsense")
        (waiting,) = await broker.messages("SCHEDULE_TOPIC_XXXX", 1)
        assert not [name for name in waiting.properties_dict() if name.startswith("TIMER_")]
        await send_timed(broker, DELAY=0, TIMER_DELAY_MS=5)
        assert len(await broker.messages(TIMER_TOPIC)) == 1


async def test_nobody_sends_to_the_timer_topic_itself(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        assert (await broker.send(TIMER_TOPIC, b"x")).code == ResponseCode.NO_PERMISSION


async def test_timers_can_be_switched_off(tmp_path: Path) -> None:
    async with broker_at(tmp_path, store={"timer_enable": False}) as broker:
        answer = await send_timed(broker, TIMER_DELAY_MS=5)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "accurate timer message is not enabled, timerWheelEnable is false"


async def test_the_precision_rounds_up_never_down(tmp_path: Path) -> None:
    async with broker_at(tmp_path, clock=ManualClock(), store={"timer_precision_ms": 1000}) as broker:
        await send_timed(broker, TIMER_DELIVER_MS=NOW + 1)
        (waiting,) = await broker.messages(TIMER_TOPIC)
        assert waiting.properties_dict()["TIMER_OUT_MS"] == str(NOW + 1000)


async def test_a_message_with_the_longest_properties_is_delivered_with_fewer_notes(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        filler = "f" * 32_670
        sent = await broker.send("T", b"x", properties=f"a\x01{filler}\x02TIMER_DELAY_MS\x015")
        assert sent.code == 0
        clock.advance(ms=5)
        message = await arrival(broker, "T")
        assert "TIMER_DEQUEUE_MS" not in message.properties_dict()


async def test_thousands_of_one_moment_all_arrive_in_their_order_and_the_loop_goes_on(tmp_path: Path) -> None:
    clock = ManualClock()
    count = 3_000
    settings: dict[str, Any] = {
        "store": {"segment_bytes": 64 << 20},
        "broker": {"fast_failure_enable": False},
    }
    async with broker_at(tmp_path, clock=clock, **settings) as broker:
        for start in range(0, count, 500):
            await asyncio.gather(
                *(
                    send_timed(broker, str(n).encode(), TIMER_DELIVER_MS=NOW + 5_000)
                    for n in range(start, start + 500)
                )
            )
        order = [message.body for message in await everything(broker, TIMER_TOPIC)]
        assert len(order) == count
        clock.advance(ms=5_000)
        turns = 0
        while len(await broker.messages("T", 0, count - 1)) == 0:
            turns += 1
        assert [message.body for message in await everything(broker, "T")] == order
        assert turns, "others had their turn meanwhile"


# --- restarts -------------------------------------------------------------------------------------


async def test_what_fell_due_while_the_broker_was_down_comes_once_at_start(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        for n in range(100):
            await send_timed(broker, str(n).encode(), uniq=f"U{n}", TIMER_DELAY_MS=1 + n)
        await send_timed(broker, b"far", TIMER_DELAY_MS=40 * DAY_MS)
        clock.advance(ms=50)
        await arrivals(broker, "T", 50)
    clock.advance(ms=DAY_MS)
    for _ in range(2):
        async with broker_at(tmp_path, clock=clock) as broker:
            await arrivals(broker, "T", 100)
            await settle()
            bodies = [message.body for message in await everything(broker, "T")]
            assert bodies == [str(n).encode() for n in range(100)]
    clock.advance(ms=39 * DAY_MS)
    async with broker_at(tmp_path, clock=clock) as broker:
        assert (await arrival(broker, "T", 100)).body == b"far"


def _remove(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)


def _of_a_longer_log(path: Path) -> None:
    from rocketeer.broker.features.timer.snapshot import write_snapshot

    write_snapshot(path, 1 << 40, [])


@pytest.mark.parametrize("damage", [None, _remove, _cut, _flip, _of_a_longer_log])
async def test_a_snapshot_shortens_the_start_and_a_broken_one_costs_nothing_else(
    tmp_path: Path, damage: Callable[[Path], None] | None
) -> None:
    clock = ManualClock()
    snapshot = tmp_path / "timer" / "pending"
    async with broker_at(tmp_path, clock=clock, store={"timer_flush_ms": 20}) as broker:
        for n in range(20):
            await send_timed(broker, str(n).encode(), TIMER_DELAY_MS=1 + n)
        clock.advance(ms=10)
        await arrivals(broker, "T", 10)
        clock.advance(ms=1_000_000)  # the store flushes by the clock, and a snapshot waits for that
        async with asyncio.timeout(60):
            while not snapshot.exists():  # noqa: ASYNC110 - a file says no event
                await asyncio.sleep(0.01)
        await send_timed(broker, b"later", TIMER_DELAY_MS=1 + DAY_MS)
    if damage is not None:
        damage(snapshot)
    clock.advance(ms=2 * DAY_MS)
    async with broker_at(tmp_path, clock=clock) as broker:
        await arrivals(broker, "T", 21)
        await settle()
        bodies = [message.body for message in await everything(broker, "T")]
        assert sorted(bodies) == sorted([*(str(n).encode() for n in range(20)), b"later"])


# --- recall ---------------------------------------------------------------------------------------


async def test_a_recalled_message_is_never_delivered_not_even_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        sent = await send_timed(broker, b"taken back", uniq="U1", TIMER_DELAY_MS=1_000)
        await send_timed(broker, b"kept", uniq="U2", TIMER_DELAY_MS=1_000)
        handle = sent.ext["recallHandle"]
        assert RecallHandle.decode(handle) == ("T", "broker-a", NOW + 1_000, "U1")
        answer = await recall(broker, handle)
        assert (answer.code, answer.ext["msgId"]) == (0, "U1")
        again = await recall(broker, handle)
        assert again.code == ResponseCode.ILLEGAL_OPERATION
        assert "recalled already" in (again.remark or "")
    clock.advance(ms=10_000)
    async with broker_at(tmp_path, clock=clock) as broker:
        await arrival(broker, "T")
        await settle()
        assert [message.body for message in await everything(broker, "T")] == [b"kept"]


async def test_a_message_is_recalled_whose_id_holds_a_separator_of_names(tmp_path: Path) -> None:
    """It was taken off the timers, and then neither recalled nor delivered."""
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        sent = await send_timed(broker, b"taken back", uniq="U\x011", TIMER_DELAY_MS=1_000)
        answer = await recall(broker, sent.ext["recallHandle"])
        assert (answer.code, answer.ext.get("msgId")) == (0, "U\x011")
        clock.advance(ms=10_000)
        await settle()
        assert await everything(broker, "T") == []


async def test_what_cannot_be_recalled_says_why(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        sent = await send_timed(broker, uniq="U1", TIMER_DELAY_MS=10)
        handle = sent.ext["recallHandle"]
        clock.advance(ms=10)
        await arrival(broker, "T")
        for text, remark in [
            (handle, "timestamp invalid"),
            (RecallHandle("T", "broker-a", NOW + 5_000, "U9").encode(), "does not wait here"),
            (RecallHandle("T2", "broker-a", NOW + 5_000, "U1").encode(), "topic not match"),
            (RecallHandle("T", "broker-b", NOW + 5_000, "U1").encode(), "broker service not available"),
            ("garbage", "recall handle is invalid"),
            ("djEgVA==", "recall handle is invalid"),
            ("\u00e4", "recall handle is invalid"),
        ]:
            answer = await recall(broker, text)
            assert answer.code == ResponseCode.ILLEGAL_OPERATION, text
            assert remark in (answer.remark or "")
        unknown = await recall(broker, handle, "T9")
        assert unknown.code == ResponseCode.TOPIC_NOT_EXIST
        assert unknown.remark == "recall failed, the topic[T9] not exist"


async def test_recall_can_be_switched_off(tmp_path: Path) -> None:
    async with broker_at(tmp_path, clock=ManualClock(), broker={"recall_enable": False}) as broker:
        sent = await send_timed(broker, TIMER_DELAY_MS=10)
        answer = await recall(broker, sent.ext["recallHandle"])
        assert (answer.code, answer.remark) == (16, "recall failed, operation is forbidden")
