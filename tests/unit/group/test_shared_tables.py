"""What a leader's tables say reaches its followers in records of a bounded size, an entry a step, in their order."""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from rocketeer.broker.features.group.shared_tables import SharedTables
from rocketeer.broker.features.group.table_position import Position, position_text
from rocketeer.broker.features.group.table_records import (
    AT_ONCE,
    QUEUES_AT_ONCE,
    Changes,
    SharedTableSet,
    records_of,
    taking_over,
)
from rocketeer.broker.features.replication.tables import BEGUN, LOG_OFFSET, table_feature
from rocketeer.broker.followed_tables import COPIED_FILES
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.locks import ChangeTrackingLocks
from rocketeer.broker.offsets import ChangeTrackingOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.config import BrokerConfig, BrokerRole
from rocketeer.errors import RequestRefused, StoreRefused
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.offsets import decode_consumer_offsets
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.record.table_change import is_table_change, table_change
from rocketeer.remoting.connection import Connection
from rocketeer.steps import Steps, finish
from rocketeer.store.message_store import MessageStore
from support.clock import ManualClock
from support.stores import open_store

T = TypeVar("T")

WAIT_S = 30


def new_tables(clock: ManualClock) -> SharedTableSet:
    config = BrokerConfig()
    return SharedTableSet(
        ChangeTrackingOffsets(),
        ChangeTrackingLocks(clock.now_ms),
        TopicTable(config, clock),
        ConsumerGroupTable(config, clock),
    )


def noted(tables: SharedTableSet, **more: Any) -> Changes:
    return Changes(tables.offsets.changed, tables.offsets.begun_anew, tables.locks.changed, **more)


def same(left: SharedTableSet, right: SharedTableSet) -> None:
    assert left.offsets.table == right.offsets.table
    assert len(left.offsets) == len(right.offsets)
    assert sorted(json.loads(left.locks.encode())["locks"]) == sorted(
        json.loads(right.locks.encode())["locks"]
    )
    assert left.topics.configs == right.topics.configs
    assert left.groups.configs == right.groups.configs


class Member:
    """A store with its tables, as leader or follower."""

    def __init__(self, folder: Path, *, leads: bool, **changes: Any) -> None:
        role = BrokerRole.ASYNC_MASTER if leads else BrokerRole.SLAVE
        self.clock = ManualClock()
        self.store: MessageStore
        self.store, _ = open_store(folder, broker_role=role, segment_bytes=1 << 20, **changes)
        self.tables = new_tables(self.clock)
        self.position = Position(lambda: self.store.whole_log_offset, known_until=LogOffset(0))
        self.shared = SharedTables(self.store, self.clock, b"\0" * 8, self.tables, position=self.position)
        if leads:
            (replay,) = self.shared.leader_feature().replays
            replay.finish()
        else:
            self.store.dispatchers.extend(self.shared.follower_feature().dispatchers)

    def copy(self, leader: "Member", end: LogOffset | None = None) -> None:
        """All that the leader's log has below `end`."""
        end = leader.store.max_log_offset if end is None else end
        while (at := self.store.max_log_offset) < end:
            size = min(5_000, end - at, leader.store.log.next_segment_offset(at) - at)
            data = leader.store.log.read(at, size)
            assert data is not None
            self.store.append_raw(at, data)

    def bodies(self) -> list[bytes]:
        found = []
        for entry in self.store.scan(LogOffset(0)):
            if is_table_change(entry):
                message = self.store.message_at(entry.log_offset)
                assert message is not None
                found.append(message.body)
        return found

    async def changed(self, change: Callable[[SharedTableSet], None]) -> LogOffset:
        """A request that changes tables; the log's end that it waited for."""
        waited: list[LogOffset] = []

        def confirmed(end: LogOffset, done: Callable[[int], None]) -> None:
            waited.append(end)
            done(ResponseCode.SUCCESS)

        def handle(command: Command, connection: Connection) -> Command:
            change(self.tables)
            return reply(command)

        answer = self.shared.handler(handle, confirmed)(request(25), cast(Connection, None))
        assert not isinstance(answer, Command)
        assert answer is not None
        await answer
        return waited[0]


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110  # steps of another turn have no event
            await asyncio.sleep(0)


def change_some(tables: SharedTableSet, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 60)):
        group, topic, queue_id = f"G{chance.randrange(9)}", f"T{chance.randrange(9)}", chance.randrange(5)
        queue = MessageQueue(topic, "b", queue_id)
        kind = chance.randrange(8)
        if kind < 3:
            tables.offsets.commit(group, topic, queue_id, QueueOffset(chance.randrange(1_000)))
        elif kind == 3:
            finish(tables.offsets.removing_group(group))
        elif kind == 4:
            tables.locks.lock(group, f"c{chance.randrange(3)}", [queue], 0)
        elif kind == 5:
            tables.locks.unlock(group, f"c{chance.randrange(3)}", [queue])
        elif kind == 6:
            if tables.topics.delete(topic) is None or chance.randrange(2):
                tables.topics.put(TopicConfig(topic, read_queues=queue_id + 1))
        elif tables.groups.delete(group) is None or chance.randrange(2):
            tables.groups.put(SubscriptionGroup(group, retry_queues=queue_id + 1))


@pytest.mark.parametrize("seed", range(3))
async def test_a_follower_has_what_the_leader_has(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    leader, follower = Member(tmp_path / "leader", leads=True), Member(tmp_path / "follower", leads=False)
    for _ in range(40):
        end = await leader.changed(lambda tables: change_some(tables, chance))
        assert end == leader.store.max_log_offset
        if chance.randrange(2):
            follower.copy(leader)
            if chance.randrange(2):
                await until(lambda: follower.position.encode() and not follower.position.waiting.first())
    follower.copy(leader)
    await until(lambda: follower.position.waiting.first() is None)
    same(leader.tables, follower.tables)
    assert max(map(len, leader.bodies())) <= 16_384
    again = Member(tmp_path / "again", leads=False)
    (replay,) = again.shared.follower_feature().replays
    again.store.dispatchers.clear()
    again.copy(leader)
    for entry in again.store.scan(LogOffset(0)):
        replay.on_message(entry)  # at a start, in a thread of its own
    same(leader.tables, again.tables)
    for member in (leader, follower, again):
        member.store.close()


async def test_what_changed_in_one_go_is_in_many_records_none_of_which_is_large(tmp_path: Path) -> None:
    leader = Member(tmp_path / "leader", leads=True)
    follower = Member(tmp_path / "follower", leads=False)

    def change(tables: SharedTableSet) -> None:
        for number in range(1_000):
            tables.offsets.commit("g" * 400, f"{number}" + "t" * 500, 0, QueueOffset(7))
            tables.topics.put(TopicConfig(f"Topic{number}"))
            tables.groups.put(SubscriptionGroup(f"Group{number}"))
        tables.locks.lock(
            "g" * 500, "c" * 500, [MessageQueue("t" * 500, "b" * 500, n) for n in range(500)], 0
        )

    await leader.changed(change)
    bodies = leader.bodies()
    assert len(bodies) > 100
    assert max(map(len, bodies)) < 16_384 / 2, "a message may have no more than 16 KB here"
    follower.copy(leader)
    await until(lambda: follower.position.waiting.first() is None)
    same(leader.tables, follower.tables)
    leader.store.close()
    follower.store.close()


def test_records_are_made_and_taken_over_in_short_steps() -> None:
    clock = ManualClock()
    ours, theirs = new_tables(clock), new_tables(clock)
    for number in range(3_000):
        ours.offsets.commit("G", f"T{number}", 0, QueueOffset(number))
        ours.locks.lock("G", "c", [MessageQueue("T", "b", number)], 0)
    steps = list(records_of(noted(ours), ours, bytes_max=16 << 10))
    assert len(steps) >= 6_000 / AT_ONCE
    bodies = [body for body in steps if body is not None]
    assert max(map(len, bodies)) < 17 << 10
    taken = 0
    for body in bodies:
        for _ in taking_over(body, theirs):
            taken += 1
    assert taken == 6_000, "an entry a step"
    same(ours, theirs)


def test_a_topic_with_very_many_queues_is_told_in_parts_and_keeps_what_is_not_told() -> None:
    clock = ManualClock()
    ours, theirs = new_tables(clock), new_tables(clock)

    def told() -> list[bytes]:
        found = [body for body in records_of(noted(ours), ours, bytes_max=16 << 10) if body is not None]
        ours.offsets.changed, ours.offsets.begun_anew = set(), set()
        for body in found:
            finish(taking_over(body, theirs))
        return found

    for queue_id in range(10 * QUEUES_AT_ONCE):
        ours.offsets.commit("G", "T", queue_id, QueueOffset(5))
    bodies = told()
    assert len(bodies) >= 5
    assert max(map(len, bodies)) < 32 << 10
    same(ours, theirs)
    ours.offsets.commit("G", "T", 77, QueueOffset(6))
    first, *_ = records_of(noted(ours), ours, bytes_max=16 << 10)
    assert first is None or "anew" not in json.loads(first)
    for body in records_of(noted(ours), ours, bytes_max=16 << 10):
        if body is not None:
            finish(taking_over(body, theirs))
            assert len(theirs.offsets.of("G", "T")) == 10 * QUEUES_AT_ONCE, (
                "whoever leads now knows all of them"
            )
    told()
    same(ours, theirs)
    finish(ours.offsets.removing_group("G"))
    for queue_id in range(5 * QUEUES_AT_ONCE):
        ours.offsets.commit("G", "T", queue_id, QueueOffset(1))
    told()
    same(ours, theirs)


def test_a_member_that_does_not_know_parts_of_a_topic_keeps_the_offsets_that_it_had() -> None:
    """It is led by one of a newer version: without them it would begin anew were it elected, perhaps at the end."""
    clock = ManualClock()
    ours, theirs = new_tables(clock), new_tables(clock)
    for queue_id in range(QUEUES_AT_ONCE):
        ours.offsets.commit("G", "T", queue_id, QueueOffset(5))
    for body in records_of(noted(ours), ours, bytes_max=16 << 10):
        if body is not None:
            finish(taking_over(body, theirs))
    finish(ours.offsets.removing_group("G"))
    for queue_id in range(QUEUES_AT_ONCE + 1):
        ours.offsets.commit("G", "T", queue_id, QueueOffset(6))
    known = ("offsets", "locks", "topics", "topicsGone", "groups", "groupsGone")
    for body in records_of(noted(ours), ours, bytes_max=16 << 10):
        if body is not None:
            told = {name: value for name, value in json.loads(body).items() if name in known}
            finish(taking_over(json.dumps(told).encode(), theirs))
    assert theirs.offsets.of("G", "T") == dict.fromkeys(range(QUEUES_AT_ONCE), 5)


async def test_a_request_waits_for_its_own_change_although_many_others_are_being_recorded(
    tmp_path: Path,
) -> None:
    leader = Member(tmp_path / "leader", leads=True)

    def many(tables: SharedTableSet) -> None:
        for number in range(20_000):
            tables.offsets.commit("G", f"T{number}", 0, QueueOffset(number))

    begun = asyncio.create_task(leader.changed(many))
    await until(lambda: leader.bodies())
    assert not begun.done(), "they take more than a turn"
    mine = await leader.changed(lambda tables: tables.offsets.commit("Mine", "T", 0, QueueOffset(1)))
    assert begun.done()
    assert await begun < mine
    bodies = leader.bodies()
    assert b"T@Mine" in bodies[-1]
    assert mine == leader.store.max_log_offset
    leader.store.close()


async def test_what_the_log_does_not_take_stays_noted(tmp_path: Path) -> None:
    leader, follower = Member(tmp_path / "leader", leads=True), Member(tmp_path / "follower", leads=False)
    before = leader.store.max_log_offset

    def change(tables: SharedTableSet) -> None:
        change_some(tables, random.Random(7))
        leader.store.refuse("disk", StoreRefused(StoreRefused.DISK_FULL, "used"))

    with pytest.raises(RequestRefused):
        await leader.changed(change)
    assert leader.store.max_log_offset == before
    leader.store.refuse("disk", None)
    await leader.changed(lambda tables: tables.offsets.commit("G1", "T1", 1, QueueOffset(3)))
    follower.copy(leader)
    await until(lambda: follower.position.waiting.first() is None)
    same(leader.tables, follower.tables)
    leader.store.close()
    follower.store.close()


async def test_a_new_topic_is_in_the_log_before_its_first_message(tmp_path: Path) -> None:
    leader = Member(tmp_path / "leader", leads=True)
    for number in range(100):
        leader.tables.offsets.commit("G", f"T{number}", 0, QueueOffset(1))
    leader.tables.topics.create_in_send_back("%RETRY%G", 1)
    (body,) = leader.bodies()
    assert list(json.loads(body)) == ["topics"], "and it alone: the others may be many"
    leader.store.close()


async def test_a_followers_position_is_before_what_its_tables_do_not_have(tmp_path: Path) -> None:
    leader, follower = Member(tmp_path / "leader", leads=True), Member(tmp_path / "follower", leads=False)
    first = await leader.changed(lambda tables: tables.offsets.commit("G", "T", 0, QueueOffset(1)))
    second = await leader.changed(lambda tables: tables.offsets.commit("G", "T", 0, QueueOffset(2)))
    follower.copy(leader, first)
    await until(lambda: follower.position.waiting.first() is None)
    assert json.loads(follower.position.encode())["logOffset"] == first
    follower.copy(leader, second)
    assert follower.tables.offsets.query("G", "T", 0) == 1, "in a later turn"
    assert json.loads(follower.position.encode())["logOffset"] == first
    await until(lambda: follower.position.waiting.first() is None)
    assert follower.position.take_dirty()
    assert json.loads(follower.position.encode())["logOffset"] == second
    assert follower.tables.offsets.query("G", "T", 0) == 2
    leader.store.close()
    follower.store.close()


async def test_records_that_come_while_the_leaders_tables_are_taken_over_count_behind_them(
    tmp_path: Path,
) -> None:
    leader, follower = Member(tmp_path / "leader", leads=True), Member(tmp_path / "follower", leads=False)
    await leader.changed(lambda tables: tables.offsets.commit("G", "T", 0, QueueOffset(1)))
    follower.copy(leader)
    told = {"T@G": {0: 2}, "U@G": {0: 5}}
    at = leader.store.max_log_offset
    await leader.changed(lambda tables: tables.offsets.commit("G", "T", 0, QueueOffset(3)))
    steps = follower.shared.copying_tables(follower.tables.offsets.following(told), at, lambda: True)
    next(steps)
    follower.copy(leader)
    for _ in steps:
        await asyncio.sleep(0)
        assert not follower.position.whole
    await until(lambda: follower.position.waiting.first() is None)
    assert follower.position.whole
    assert follower.tables.offsets.table == {"T@G": {0: 3}, "U@G": {0: 5}}
    given_up = follower.shared.copying_tables(
        follower.tables.offsets.following({"T@G": {0: 9}}), at, lambda: False
    )
    follower.position.decode(position_text(follower.position.log_offset, whole=False))
    finish(given_up)
    assert not follower.position.whole
    leader.store.close()
    follower.store.close()


async def test_a_member_that_gave_up_taking_over_the_leaders_tables_claims_no_record_behind_them(
    tmp_path: Path,
) -> None:
    leader, follower = Member(tmp_path / "leader", leads=True), Member(tmp_path / "follower", leads=False)
    at = await leader.changed(lambda tables: tables.offsets.commit("G", "T", 0, QueueOffset(1)))
    for number in range(2, 5):
        end = await leader.changed(lambda tables, number=number: tables.offsets.commit("G", "T", 0, number))  # type: ignore[misc]
    follower.copy(leader)
    await until(lambda: follower.position.waiting.first() is None)
    assert json.loads(follower.position.encode())["logOffset"] == end

    def joining() -> Steps[None]:
        return follower.shared.copying_tables(
            follower.tables.offsets.following({"T@G": {0: 1}}), at, lambda: True
        )

    given_up = joining()
    while follower.tables.offsets.query("G", "T", 0) != 1:
        next(given_up)
    next(given_up)
    given_up.close()
    assert follower.position.take_dirty()
    assert json.loads(follower.position.encode()) == {"logOffset": at, "whole": False}
    finish(joining())
    assert json.loads(follower.position.encode()) == {"logOffset": end, "whole": True}
    same(leader.tables, follower.tables)
    leader.store.close()
    follower.store.close()


async def test_a_record_that_is_half_taken_over_when_the_leaders_tables_come_is_not_gone_on_with(
    tmp_path: Path,
) -> None:
    leader = Member(tmp_path / "leader", leads=True, message_bytes_max=1 << 18)
    follower = Member(tmp_path / "follower", leads=False, message_bytes_max=1 << 18)

    def change(offset: int) -> Callable[[SharedTableSet], None]:
        def commits(tables: SharedTableSet) -> None:
            for number in range(3_000):
                tables.offsets.commit("G", f"T{number}", 0, QueueOffset(offset))
            tables.topics.put(TopicConfig("Comes"))
            tables.topics.delete("Goes")

        return commits

    leader.tables.topics.put(TopicConfig("Goes"))
    first = await leader.changed(change(1))
    (body,) = leader.bodies()
    assert len(body) > 40_000
    await leader.changed(change(2))
    leader.tables.topics.put(TopicConfig("Goes"))
    at = await leader.changed(lambda tables: tables.offsets.commit("G", "T2999", 0, QueueOffset(3)))
    topics = dict(leader.tables.topics.configs), leader.tables.topics.version
    offsets = {key: dict(queues) for key, queues in leader.tables.offsets.table.items()}
    end = await leader.changed(lambda tables: tables.offsets.commit("G", "T0", 0, QueueOffset(4)))

    follower.copy(leader, first)
    await until(lambda: follower.tables.offsets.table)
    assert len(follower.tables.offsets) < 3_000, "half taken over"
    follower.copy(leader, at)  # from here on without a turn of the loop

    def following() -> Steps[None]:
        yield from follower.tables.topics.following(*topics)
        yield from follower.tables.offsets.following(offsets)

    finish(follower.shared.copying_tables(following(), at, lambda: True))
    assert follower.tables.offsets.table == offsets
    follower.copy(leader, end)
    await until(lambda: follower.position.waiting.first() is None)
    same(leader.tables, follower.tables)
    assert json.loads(follower.position.encode())["logOffset"] == end
    leader.store.close()
    follower.store.close()


async def test_a_record_that_could_not_be_taken_over_is_tried_again_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leader, follower = Member(tmp_path / "leader", leads=True), Member(tmp_path / "follower", leads=False)
    first = leader.store.max_log_offset
    for number in range(3):
        await leader.changed(lambda tables, number=number: tables.offsets.commit("G", "T", 0, number))  # type: ignore[misc]

    def fails(key: str, queues: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(follower.tables.offsets, "set_queues", fails)
        for end in (first + 1, leader.store.max_log_offset - 1):
            follower.copy(leader, LogOffset(end))
            for _ in range(5):
                await asyncio.sleep(0)
            assert follower.position.waiting.first() in (None, first)
    assert len([each for each in caplog.records if "not taken over" in each.getMessage()]) == 1
    follower.copy(leader)
    await until(lambda: follower.position.waiting.first() is None)
    same(leader.tables, follower.tables)
    leader.store.close()
    follower.store.close()


def test_that_the_tables_are_whole_is_saved_also_when_the_log_has_not_grown() -> None:
    position = Position(lambda: LogOffset(7), known_until=None)
    assert position.take_dirty()
    assert json.loads(position.encode()) == {"logOffset": 7, "whole": False}
    assert not position.take_dirty()
    position.become_whole()
    assert position.take_dirty()
    assert json.loads(position.encode()) == {"logOffset": 7, "whole": True}
    assert not position.take_dirty()


class InterruptedOffsets(ChangeTrackingOffsets):
    """Something else happens between two steps of telling them, now and then."""

    def __init__(self, between: Callable[[], None]) -> None:
        super().__init__()
        self._between = between
        self._steps = 0

    def refresh(self) -> Steps[None]:
        return self._interrupted(super().refresh())

    def encoding(self, *, any_size: bool = False) -> Steps[bytes]:
        return self._interrupted(super().encoding(any_size=any_size))

    def _interrupted(self, steps: Steps[T]) -> Steps[T]:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            self._steps += 1
            if self._steps % 4 == 0:
                self._between()
            yield


@pytest.mark.parametrize("table", ["changed", "known"])
async def test_what_is_committed_while_the_leader_tells_its_offsets_is_told_or_stands_in_the_log_behind(
    tmp_path: Path, table: str
) -> None:
    leader, follower = Member(tmp_path / "leader", leads=True), Member(tmp_path / "follower", leads=False)
    commits = 0

    def commit_and_record() -> None:
        nonlocal commits
        commits += 1
        offsets.commit("G", "T", 0, QueueOffset(commits))
        for body in records_of(noted(leader.tables), leader.tables, bytes_max=1 << 10):
            if body is not None:
                leader.store.append(table_change(body, now_ms=0, host=bytes(8)))
        offsets.changed, offsets.begun_anew = set(), set()

    offsets = InterruptedOffsets(commit_and_record)
    leader.tables = replace(leader.tables, offsets=offsets)
    for number in range(3_000):
        offsets.commit("G" * 500, f"Other{number}", 0, QueueOffset(7))
    commit_and_record()
    if table == "known":
        finish(offsets.refresh())
    feature = table_feature(offsets, COPIED_FILES, cast(Any, None), leader.store)
    told = feature.handlers[RequestCode.GET_ALL_CONSUMER_OFFSET](request(43), cast(Connection, None))
    assert told is not None
    answer = told if isinstance(told, Command) else await told
    assert answer is not None
    assert commits > 4

    def following() -> Steps[None]:
        yield from follower.tables.offsets.following(decode_consumer_offsets(answer.body))

    assert int(answer.ext[LOG_OFFSET]) == leader.store.max_log_offset, (
        "what is told speaks of messages below it"
    )
    at = LogOffset(int(answer.ext[BEGUN]))
    follower.store.dispatchers.clear()  # what came before it joined is in the leader's tables
    follower.copy(leader)
    finish(follower.shared.copying_tables(following(), at, lambda: True))
    assert follower.tables.offsets.query("G", "T", 0) == commits
    leader.store.close()
    follower.store.close()
