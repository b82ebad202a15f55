"""A slave that is made a master by hand (its role and id changed, restarted) goes on where its master was."""

import asyncio
import json
import time
from pathlib import Path

from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.record.ids import parse_offset_msg_id
from support.broker import BrokerUnderTest, broker_at
from support.pairs import eventually, pair_at, same_logs, until

LEVELS = {"delay_levels": "1s 4s", "timer_flush_ms": 200}
NUMBERED = "PRODUCER_ID\x01p\x02PRODUCER_SEQ\x01{}\x02UNIQ_KEY\x01U{}"


async def bodies(broker: BrokerUnderTest, topic: str, queue_id: int = 0) -> list[bytes]:
    answer = await broker.pull(topic, queue_id)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return []
    return [message.body for message in await broker.messages(topic, queue_id)]


async def end_transaction(broker: BrokerUnderTest, half: dict[str, str], verdict: int) -> int:
    _, log_offset = parse_offset_msg_id(half["msgId"])
    ended = await broker.ask(
        RequestCode.END_TRANSACTION,
        {
            "producerGroup": "PG", "tranStateTableOffset": half["queueOffset"], "commitLogOffset": log_offset,
            "commitOrRollback": verdict, "msgId": "U-tx", "transactionId": "U-tx",
        },
    )  # fmt: skip
    return ended.code


async def test_rocketmq_issue_8539_queues_go_on_densely_and_every_kind_of_message_once(
    tmp_path: Path,
) -> None:
    async with pair_at(tmp_path, master=LEVELS, slave=LEVELS) as (master, slave):
        for number in range(20):
            await master.send("Plain", b"%d" % number, queue_id=number % 2)
        await master.send("Delayed", b"short", properties="DELAY\x011")
        due_ms = int(time.time() * 1000) + 3_000
        await master.send("Timed", b"timed", properties=f"TIMER_DELIVER_MS\x01{due_ms}\x02UNIQ_KEY\x01Ut")
        for number in range(3):
            await master.send("Numbered", b"n%d" % number, properties=NUMBERED.format(number, number))
        half_properties = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01U-tx"
        open_half = await master.send("Tx", b"open", properties=half_properties, f=4)
        done_half = await master.send("Tx", b"done", properties=half_properties.replace("tx", "t2"), f=4)
        assert await end_transaction(master, done_half.ext, 8) == ResponseCode.SUCCESS
        await master.ask(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": "CG", "topic": "Plain", "queueId": 0, "commitOffset": 7},
        )

        async def delivered() -> bool:
            return await bodies(master, "Delayed") == [b"short"]

        await eventually(delivered)
        await master.send("Delayed", b"long", properties="DELAY\x012")
        await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"))

        async def followed() -> bool:
            answer = await slave.ask(
                RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "CG", "topic": "Plain", "queueId": 0}
            )
            return answer.ext.get("offset") == "7"

        await eventually(followed)
        is_early = await bodies(slave, "Timed") != [] and time.time() * 1000 < due_ms
        assert not is_early, "a slave delivers nothing by itself"

    async with broker_at(tmp_path / "s", store=LEVELS) as promoted:
        sent = await promoted.send("Plain", b"20", queue_id=0)
        assert sent.ext["queueOffset"] == "10", "dense: the slave's table of queue ends is right"
        answer = await promoted.ask(
            RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "CG", "topic": "Plain", "queueId": 0}
        )
        assert answer.ext["offset"] == "7"
        again = await promoted.send("Numbered", b"n2", properties=NUMBERED.format(2, 2))
        assert (again.code, again.ext["queueOffset"]) == (0, "2"), "answered, not stored again"
        assert await bodies(promoted, "Numbered") == [b"n0", b"n1", b"n2"]
        assert await end_transaction(promoted, done_half.ext, 8) != ResponseCode.SUCCESS
        assert await end_transaction(promoted, open_half.ext, 8) == ResponseCode.SUCCESS
        assert await bodies(promoted, "Tx") == [b"done", b"open"]

        async def all_delivered() -> bool:
            return await bodies(promoted, "Delayed") == [b"short", b"long"] and bool(
                await bodies(promoted, "Timed")
            )

        await eventually(all_delivered)
        await asyncio.sleep(0.3)
        assert await bodies(promoted, "Delayed") == [b"short", b"long"]
        assert await bodies(promoted, "Timed") == [b"timed"]


async def send_back(broker: BrokerUnderTest, log_offset: int) -> int:
    header = {
        "offset": log_offset, "group": "CG", "delayLevel": 1, "originMsgId": "x", "originTopic": "Back",
        "unitMode": "false", "maxReconsumeTimes": 16,
    }  # fmt: skip
    return (await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code


async def test_a_delivery_that_went_back_before_the_promotion_goes_back_once(tmp_path: Path) -> None:
    """A consumer that got no answer from the old master asks the new one again."""
    async with pair_at(tmp_path, master=LEVELS, slave=LEVELS) as (master, _):
        offsets = []
        for body in (b"first", b"second"):
            sent = await master.send("Back", body)
            offsets.append(parse_offset_msg_id(sent.ext["msgId"])[1])
        assert await send_back(master, offsets[0]) == ResponseCode.SUCCESS

        async def tried_again() -> bool:
            return await bodies(master, "%RETRY%CG") == [b"first"]

        await eventually(tried_again)
        assert await send_back(master, offsets[1]) == ResponseCode.SUCCESS  # its delay is not over yet
        await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"))
    async with broker_at(tmp_path / "s", store=LEVELS) as promoted:
        for offset in offsets:
            assert await send_back(promoted, offset) == ResponseCode.SUCCESS

        async def both_tried_again() -> bool:
            return len(await bodies(promoted, "%RETRY%CG")) >= 2

        await eventually(both_tried_again)
        await promoted.send(
            "Later", b"x", properties="DELAY\x011"
        )  # what was asked for after it is over before it

        async def later() -> bool:
            return await bodies(promoted, "Later") == [b"x"]

        await eventually(later)
        assert await bodies(promoted, "%RETRY%CG") == [b"first", b"second"]


async def test_rocketmq_issue_3473_delay_progress_is_saved_at_a_stop_and_copied(tmp_path: Path) -> None:
    async with pair_at(tmp_path, master=LEVELS, slave=LEVELS) as (master, _):
        await master.send("Delayed", b"x", properties="DELAY\x011")

        async def delivered() -> bool:
            return await bodies(master, "Delayed") == [b"x"]

        await eventually(delivered)
    saved = json.loads((tmp_path / "m" / "config" / "delayOffset.json").read_text().replace("{1:", '{"1":'))
    assert saved["offsetTable"] == {"1": 1}
    async with broker_at(tmp_path / "m", store=LEVELS) as master:
        await asyncio.sleep(0.5)
        assert await bodies(master, "Delayed") == [b"x"], "not delivered again"
