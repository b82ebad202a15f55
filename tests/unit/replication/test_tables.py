"""What follows the master beside the log: topics, groups, consumer offsets, delay progress."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import pytest

from rocketeer.broker.features.replication import tables
from rocketeer.broker.features.replication.tables import FollowedTables, table_feature
from rocketeer.broker.followed_tables import COPIED_FILES
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.config import BrokerConfig
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.protocol.bodies.groups import decode_group_table, encode_group
from rocketeer.protocol.bodies.topics import decode_topic_table
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.steps import Steps
from support.broker import BrokerUnderTest
from support.clock import ManualClock
from support.pairs import eventually, pair_at
from support.stores import message, open_store

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


class Master:
    """Stores a message, and a group consumes it, between two steps of whatever is told; answers as a master does."""

    def __init__(self, folder: Path) -> None:
        self.store, _ = open_store(folder)
        self._consumed = 0

        class Consumed(ConsumerOffsets):
            def encoding(offsets, *, any_size: bool = False) -> Steps[bytes]:
                steps = super().encoding(any_size=any_size)
                while True:
                    self.consume()
                    try:
                        next(steps)
                    except StopIteration as end:
                        body: bytes = end.value
                        return body
                    yield

        self.offsets = Consumed()
        self.handlers = table_feature(self.offsets, COPIED_FILES, cast(Any, None), self.store).handlers

    def consume(self) -> None:
        self.store.append(message(b"x", "T", 0))
        self._consumed += 1
        self.offsets.commit("G", "T", 0, QueueOffset(self._consumed))

    async def invoke(self, address: str, command: Command, timeout_s: float) -> Command:
        if command.code != RequestCode.GET_ALL_CONSUMER_OFFSET:
            clock = ManualClock()
            bodies: dict[int, str] = {
                RequestCode.GET_ALL_TOPIC_CONFIG: TopicTable(BrokerConfig(), clock).encode(),
                RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ConsumerGroupTable(
                    BrokerConfig(), clock
                ).encode(),
            }
            return reply(command, body=bodies.get(command.code, "").encode())
        told = self.handlers[command.code](command, cast(Any, None))
        answer = await told if isinstance(told, Awaitable) else told
        assert answer is not None
        return answer


class CopiedLog:
    def __init__(self) -> None:
        self.max_log_offset = self.flushed_log_offset = LogOffset(0)


async def test_a_slave_knows_no_offset_of_a_message_that_it_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of many offsets is made in many turns, in which messages are stored and consumed."""
    clock = ManualClock()
    master, log, offsets = Master(tmp_path), CopiedLog(), ConsumerOffsets()
    for number in range(3_000):
        master.offsets.commit("G" * 500, f"Other{number}", 0, QueueOffset(7))
    master.consume()
    slave = FollowedTables(
        master,
        topics=TopicTable(BrokerConfig(), clock),
        groups=ConsumerGroupTable(BrokerConfig(), clock),
        offsets=offsets,
        copied_files=COPIED_FILES,
        files=cast(Any, None),
        store=cast(Any, log),
        clock=clock,
        own_address="",
    )
    monkeypatch.setattr(tables, "SYNC_S", 1e9)  # told once
    slave.master_named("master:1")
    await slave.look()
    assert offsets.query("G", "T", 0) is None
    ends = [LogOffset(entry.log_offset + entry.size) for entry in master.store.scan(LogOffset(0))]
    assert len(ends) > 4
    for messages, end in enumerate(ends, 1):
        log.max_log_offset = log.flushed_log_offset = end
        await slave.look()
        assert (offsets.query("G", "T", 0) or 0) <= messages
    assert offsets.query("G", "T", 0)
    master.store.close()
