"""Delayed messages and those sent back: stored as recorded from RocketMQ 4.9.8, delivered once, when due."""

import asyncio
import json
from pathlib import Path
from typing import Any

from rocketeer.protocol.codes import RequestCode
from rocketeer.record.ids import parse_offset_msg_id
from rocketeer.record.layout import StoredMessage
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "wire"


async def _arrival(broker: BrokerUnderTest, topic: str, offset: int = 0, queue_id: int = 0) -> StoredMessage:
    """The next message of a queue, held for it rather than slept for."""
    answer = await broker.messages(topic, queue_id, offset, sysFlag=6, suspendTimeoutMillis=15_000)
    assert answer, f"nothing arrived in {topic}"
    return answer[0]


def _recorded(scenario: str, topic: str) -> list[dict[str, Any]]:
    lines = (GOLDEN / f"{scenario}.stored.jsonl").read_text().splitlines()
    return [message for line in lines if line and (message := json.loads(line))["topic"] == topic]


async def test_a_delayed_message_waits_in_its_level_and_comes_back_as_recorded(tmp_path: Path) -> None:
    clock = ManualClock()
    (waiting, *_), (delivered, *_) = (
        _recorded("delay", "SCHEDULE_TOPIC_XXXX"),
        _recorded("delay", "TopicTest"),
    )
    properties = "KEYS\x01kd\x02UNIQ_KEY\x017F000001009E4E0E2F2A49CE70050006\x02WAIT\x01true\x02DELAY\x012\x02TAGS\x01TagA"
    async with broker_at(tmp_path, clock=clock) as broker:
        await broker.send("TopicTest", b"before")
        sent = await broker.send("TopicTest", b"delayed level 2", properties=properties)
        assert sent.ext["queueId"] == "0", "the sender is told the queue it chose"
        (message,) = await broker.messages("SCHEDULE_TOPIC_XXXX", 1)
        assert message.properties_dict() == waiting["properties"]
        assert message.size == waiting["storeSize"]
        clock.advance(ms=4_999)
        await asyncio.sleep(0.1)
        assert len(await broker.messages("TopicTest")) == 1, "one millisecond too early"
        clock.advance(ms=1)
        back = await _arrival(broker, "TopicTest", offset=1)
        assert back.properties_dict() == delivered["properties"]
        assert (back.size, back.body, back.queue_id) == (delivered["storeSize"], b"delayed level 2", 0)


async def test_a_level_above_the_last_means_the_last(tmp_path: Path) -> None:
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        await broker.send("T", b"x", properties="DELAY\x0199")
        (message,) = await broker.messages("SCHEDULE_TOPIC_XXXX", 17)
        assert message.properties_dict()["DELAY"] == "18"


async def test_what_was_due_while_the_broker_was_down_is_delivered_once_at_start(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        for n in range(300):
            await broker.send("T", str(n).encode(), properties="DELAY\x011")
    clock.advance(ms=60_000)
    for _ in range(2):
        async with broker_at(tmp_path, clock=clock) as broker:
            for offset in range(300):
                await _arrival(broker, "T", offset)
            bodies = [m.body for offset in range(0, 320, 32) for m in await broker.messages("T", 0, offset)]
            assert bodies == [str(n).encode() for n in range(300)]
    assert "{1:300}" in (tmp_path / "config" / "delayOffset.json").read_text().replace("\n", "").replace(
        "\t", ""
    )


async def _send_back(broker: BrokerUnderTest, message: StoredMessage, **ext: Any) -> int:
    header = {
        "offset": message.log_offset, "group": "CG_retry", "delayLevel": 0, "originMsgId": "x",
        "originTopic": "RetryTopic", "unitMode": "false", "maxReconsumeTimes": 1,
    }  # fmt: skip
    return (await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header | ext)).code


async def test_a_message_sent_back_is_tried_again_and_then_dead(tmp_path: Path) -> None:
    clock = ManualClock()
    properties = (
        "KEYS\x01retry1\x02UNIQ_KEY\x017F00000103334E0E2F2A49CFC5870000\x02WAIT\x01true\x02TAGS\x01TagR"
    )
    async with broker_at(tmp_path, clock=clock) as broker:
        sent = await broker.send("RetryTopic", b"will fail", properties=properties)
        (first,) = await broker.messages("RetryTopic")
        assert await _send_back(broker, first) == 0
        (waiting,) = await broker.messages("SCHEDULE_TOPIC_XXXX", 2)
        clock.advance(ms=10_000)
        second = await _arrival(broker, "%RETRY%CG_retry")
        assert await _send_back(broker, second) == 0
        dead = await _arrival(broker, "%DLQ%CG_retry")

        origin = {"ORIGIN_MESSAGE_ID": sent.ext["msgId"]}
        for message, topic in (
            (waiting, "SCHEDULE_TOPIC_XXXX"),
            (second, "%RETRY%CG_retry"),
            (dead, "%DLQ%CG_retry"),
        ):
            recorded = _recorded("retry_dlq", topic)[0]
            assert message.properties_dict() == recorded["properties"] | origin
            assert message.reconsume_times == recorded["reconsumeTimes"]
            assert message.size == recorded["storeSize"]
            assert message.body == b"will fail"


async def test_our_clients_choose_the_pause_to_the_millisecond_as_often_as_they_fail(tmp_path: Path) -> None:
    clock = ManualClock()
    timed = "UNIQ_KEY\x017F00000103334E0E2F2A49CFC5870001\x02TIMER_DELAY_MS\x01500"
    async with broker_at(tmp_path, clock=clock) as broker:
        await broker.send("RetryTopic", b"x", properties=timed)  # one that was timed itself
        clock.advance(ms=500)
        message = await _arrival(broker, "RetryTopic")
        for tries in (1, 2):
            assert await _send_back(broker, message, delayMs=2_750, delayLevel=3, maxReconsumeTimes=2) == 0
            assert await broker.messages("SCHEDULE_TOPIC_XXXX", 2) == []
            clock.advance(ms=2_740)
            await asyncio.sleep(0.05)
            assert len(await broker.messages("%RETRY%CG_retry")) == tries - 1
            clock.advance(ms=10)
            message = await _arrival(broker, "%RETRY%CG_retry", tries - 1)
            assert (message.body, message.reconsume_times) == (b"x", tries)
        assert await _send_back(broker, message, delayMs=2_750, delayLevel=3, maxReconsumeTimes=2) == 0
        assert (await _arrival(broker, "%DLQ%CG_retry")).reconsume_times == 3


async def test_a_dead_letter_says_why_and_nothing_said_can_break_it(tmp_path: Path) -> None:
    said = {"failureReason": "ValueError: \x01no\x02", "failureTrace": "t" * 5_000, "failureClient": "c1"}
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        for body, properties in ((b"short", ""), (b"long", f"user\x01{'u' * 32_000}")):
            await broker.send("RetryTopic", body, properties=properties)
        short, long = await broker.messages("RetryTopic")
        assert await _send_back(broker, short, delayLevel=3, **said) == 0
        (again,) = await broker.messages("SCHEDULE_TOPIC_XXXX", 2)
        assert "FAILURE_REASON" not in again.properties_dict(), "it may yet succeed"
        for message in (short, long):
            assert await _send_back(broker, message, delayLevel=-1, **said) == 0
        dead, crowded = await broker.messages("%DLQ%CG_retry")
        told = dead.properties_dict()
        assert told["FAILURE_REASON"] == "ValueError:  no "
        assert told["FAILURE_CLIENT"] == "c1"
        assert told["FAILURE_TRACE"] == "t" * 2_048
        assert crowded.body == b"long"
        assert "FAILURE_TRACE" not in crowded.properties_dict(), "no place for it"


async def test_the_client_may_choose_the_delay_or_give_up_at_once(tmp_path: Path) -> None:
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        await broker.send("RetryTopic", b"x")
        await broker.send("RetryTopic", b"y")
        one, other = await broker.messages("RetryTopic")
        assert await _send_back(broker, one, delayLevel=7) == 0
        assert len(await broker.messages("SCHEDULE_TOPIC_XXXX", 6)) == 1
        assert await _send_back(broker, other, delayLevel=-1) == 0
        assert len(await broker.messages("%DLQ%CG_retry")) == 1
        header = {"offset": 99_999_999, "group": "CG_retry", "delayLevel": 0}
        refused = await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        assert (refused.code, refused.remark) == (1, "look message by offset failed, 99999999")


async def test_a_consumer_that_resends_past_the_limit_fills_the_dead_letters(tmp_path: Path) -> None:
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        assert (await broker.send("%RETRY%G", b"try", j=3, l=16, properties="DELAY\x016")).code == 0
        assert len(await broker.messages("SCHEDULE_TOPIC_XXXX", 5)) == 1
        done = await broker.send("%RETRY%G", b"too often", j=16, l=16, properties="DELAY\x0119")
        assert done.code == 0
        (dead,) = await broker.messages("%DLQ%G")
        assert dead.body == b"too often"
        assert parse_offset_msg_id(done.ext["msgId"])[1] == dead.log_offset


async def test_a_topic_that_is_only_said_counts_for_nothing(tmp_path: Path) -> None:
    """The property may be as long as all of them: 50,000 such names would be kept."""
    async with broker_at(tmp_path) as broker:
        await broker.send("RetryTopic", b"will fail", properties="RETRY_TOPIC\x01" + "r" * 30_000)
        (first,) = await broker.messages("RetryTopic")
        assert await _send_back(broker, first) == 0
        key = {"statsName": "SNDBCK_PUT_NUMS", "statsKey": "RetryTopic@CG_retry"}
        assert (await broker.ask(RequestCode.VIEW_BROKER_STATS_DATA, key)).code == 0
        key["statsKey"] = "r" * 30_000 + "@CG_retry"
        assert (await broker.ask(RequestCode.VIEW_BROKER_STATS_DATA, key)).code != 0
