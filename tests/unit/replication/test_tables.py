"""What follows the master beside the log: topics, groups, consumer offsets, delay progress."""

from pathlib import Path

from rocketeer.model.group import SubscriptionGroup
from rocketeer.protocol.bodies.groups import decode_group_table, encode_group
from rocketeer.protocol.bodies.topics import decode_topic_table
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.broker import BrokerUnderTest
from support.pairs import eventually, pair_at

COMMIT = {"consumerGroup": "CG", "topic": "T", "queueId": 0}


async def committed(broker: BrokerUnderTest) -> str | None:
    return (await broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, COMMIT)).ext.get("offset")


async def topics_of(broker: BrokerUnderTest) -> dict[str, object]:
    topics, _ = decode_topic_table((await broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
    return dict(topics)


async def test_topics_groups_and_offsets_follow_and_pulls_are_served(tmp_path: Path) -> None:
    async with pair_at(tmp_path) as (master, slave):
        for number in range(10):
            assert (await master.send("T", b"%d" % number)).code == ResponseCode.SUCCESS
        await master.ask(200, body=encode_group(SubscriptionGroup("CG", retry_max=3)))
        await master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**COMMIT, "commitOffset": 4})

        async def served() -> bool:
            return (await slave.pull("T")).code == ResponseCode.SUCCESS

        await eventually(served, what="a pull from the slave")
        assert [m.body for m in await slave.messages("T")] == [b"%d" % n for n in range(10)]

        async def followed() -> bool:
            """One after the other, and some of it may be from before the group was there."""
            groups = decode_group_table((await slave.ask(201)).body).groups
            return (
                await committed(slave) == "4"
                and "CG" in groups
                and groups["CG"].retry_max == 3
                and await topics_of(slave) == await topics_of(master)
            )

        await eventually(followed, what="the group, its offset, all topics")

        held = await slave.pull("T", offset=10, sysFlag=6, suspendTimeoutMillis=0)
        assert held.code == ResponseCode.PULL_NOT_FOUND


async def test_a_held_pull_on_a_slave_is_woken_by_what_is_copied(tmp_path: Path) -> None:
    import asyncio

    async with pair_at(tmp_path) as (master, slave):
        await master.send("T", b"0")

        async def served() -> bool:
            return (await slave.pull("T")).code == ResponseCode.SUCCESS

        await eventually(served)
        held = asyncio.ensure_future(slave.pull("T", offset=1, sysFlag=6, suspendTimeoutMillis=60_000))
        await asyncio.sleep(0.2)
        await master.send("T", b"1")
        answer = await asyncio.wait_for(held, 10)
        assert answer.code == ResponseCode.SUCCESS


async def test_a_commit_inside_a_pull_is_ignored_by_a_slave(tmp_path: Path) -> None:
    async with pair_at(tmp_path) as (master, slave):
        await master.send("T", b"0")

        async def served() -> bool:
            return (await slave.pull("T", sysFlag=5, commitOffset=1)).code == ResponseCode.SUCCESS

        await eventually(served)
        assert await committed(slave) == "0", "none: the queue's beginning"
        await master.pull("T", sysFlag=5, commitOffset=1)
        assert await committed(master) == "1"


async def test_slaves_of_4_9_8_are_told_the_same_tables(tmp_path: Path) -> None:
    async with pair_at(tmp_path) as (master, _):
        await master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**COMMIT, "commitOffset": 4})
        answer = await master.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert (answer.code, answer.body) == (0, b'{"offsetTable":{"T@CG":{0:4}}}')
        answer = await master.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert (answer.code, answer.body) == (0, b'{"offsetTable":{}}')
        answer = await master.ask(RequestCode.GET_BROKER_TABLE, {"name": "../topics.json"})
        assert answer.code == ResponseCode.SYSTEM_ERROR
