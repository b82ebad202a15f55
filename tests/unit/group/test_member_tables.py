"""What a member's files say besides its log is true of its log: after a cut, and after a change of leader."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketeer.broker.features.group.shared_tables import SharedTables
from rocketeer.broker.features.group.table_position import Position, position_text, read_position
from rocketeer.broker.features.group.table_records import SharedTableSet
from rocketeer.broker.features.replication.tables import LOG_OFFSET
from rocketeer.broker.followed_tables import COPIED_FILES
from rocketeer.broker.group.cut import LOG_TABLES, cut_member
from rocketeer.broker.group.tables import JoinedTables
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.locks import ChangeTrackingLocks
from rocketeer.broker.offsets import ChangeTrackingOffsets, ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.config import BrokerConfig, StoreConfig
from rocketeer.errors import ConnectFailed
from rocketeer.group.member_file import MemberFile
from rocketeer.model.offsets import LogOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.remoting.connection import Connection
from rocketeer.store.commit_log import CommitLog
from support.clock import ManualClock
from support.stores import make_store, message, open_store, small_config

OFFSETS = '{"offsetTable":{"T@G":{"0":7}}}'


def member_with_a_tail(folder: Path) -> tuple[MemberFile, int]:
    """Ten messages of epochs 1 and 2, with the files that a member keeps; where the seventh begins."""
    store, _ = open_store(folder)
    entries = [store.append(message(b"%d" % number)) for number in range(10)]
    store.close()
    file = MemberFile(folder)
    file.set_epochs([(1, 0), (2, entries[8].log_offset)])
    (folder / "config").mkdir(exist_ok=True)
    for name in LOG_TABLES:
        (folder / "config" / name).write_text("{}")
    (folder / "config" / ConsumerOffsets.file_name).write_text(OFFSETS)
    (folder / "config" / Position.file_name).write_text(position_text(entries[-1].end, whole=True))
    (folder / "timer").mkdir(exist_ok=True)
    (folder / "timer" / "pending").write_bytes(b"places in the log")
    return file, entries[6].log_offset


def test_a_cut_takes_all_that_speaks_of_the_cut_bytes_and_keeps_what_was_committed(tmp_path: Path) -> None:
    file, end = member_with_a_tail(tmp_path)
    cut_member(small_config(tmp_path), file, end)
    config = tmp_path / "config"
    assert (config / ConsumerOffsets.file_name).read_text() == OFFSETS  # it may be elected with them
    assert json.loads((config / Position.file_name).read_text()) == {"logOffset": end, "whole": False}
    assert not [name for name in LOG_TABLES if (config / name).exists()]
    assert not (tmp_path / "timer" / "pending").exists()
    assert file.now.epochs == [(1, 0)]
    again = make_store(tmp_path)
    again.open()
    assert again.max_log_offset == end
    again.close()


def test_a_crash_before_the_log_is_cut_leaves_nothing_that_would_be_believed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are cut are not asked for again: what spoke of them would meet another log of the same length."""

    def crash(log: CommitLog, end: int) -> int:
        raise KeyboardInterrupt

    file, end = member_with_a_tail(tmp_path)
    monkeypatch.setattr(CommitLog, "cut_to", crash)
    with pytest.raises(KeyboardInterrupt):
        cut_member(small_config(tmp_path), file, end)
    assert not [name for name in LOG_TABLES if (tmp_path / "config" / name).exists()]
    assert not (tmp_path / "timer" / "pending").exists()
    assert read_position(tmp_path / "config" / Position.file_name) == end
    assert file.now.epochs[-1][0] == 2  # the bytes are there, and so are their epochs


class Leaders:
    """Answers for every leader that can be reached: each has its own progress, noted when its log ended at 1000."""

    def __init__(self) -> None:
        self.away: set[str] = set()

    async def invoke(self, address: str, command: Command, timeout_s: float) -> Command:
        if address in self.away:
            raise ConnectFailed(address, "nobody there")
        text = json.dumps({"told by": address}) if command.code == RequestCode.GET_ALL_DELAY_OFFSET else ""
        return reply(command, ext={LOG_OFFSET: "1000"}, body=text.encode())


class Saved:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def saved_text(self, file_name: str) -> str | None:
        return self.texts.get(file_name)

    async def save_text(self, file_name: str, text: str) -> None:
        self.texts[file_name] = text


class CopiedLog:
    def __init__(self) -> None:
        self.max_log_offset = self.flushed_log_offset = 900
        self.config = StoreConfig()

    def scan(self, start: LogOffset) -> Iterator[DispatchEntry]:
        return iter(())

    def delete_topic(self, topic: str) -> None:
        raise AssertionError(topic)


async def test_what_a_fallen_leader_told_of_its_own_log_is_not_taken_over_from_the_next_one() -> None:
    """Its log went up to 1000, ours got to 900: what we have at 1000 later is another leader's."""
    clock, saved, log, leaders = ManualClock(), Saved(), CopiedLog(), Leaders()
    tables = JoinedTables(
        leaders,
        topics=TopicTable(BrokerConfig(), clock),
        groups=ConsumerGroupTable(BrokerConfig(), clock),
        offsets=ConsumerOffsets(),
        copied_files=COPIED_FILES,
        files=saved,
        store=log,
        clock=clock,
        own_address="",
        shared=cast(SharedTables, SimpleNamespace(position=SimpleNamespace(whole=True))),
    )
    tables.leader_named("first:1")
    await tables.look()
    assert saved.texts == {}
    leaders.away = {"first:1", "second:1"}
    tables.leader_named("second:1")
    log.max_log_offset = log.flushed_log_offset = 1000
    await tables.look()
    assert saved.texts == {}
    leaders.away.clear()
    clock.advance(ms=60_000)
    await tables.look()
    assert saved.texts == {"delayOffset.json": '{"told by": "second:1"}'}


QUEUE = MessageQueue("T", "broker-a", 0)


def shared_tables(locks: ChangeTrackingLocks, clock: ManualClock) -> SharedTables:
    return SharedTables(
        cast(Any, CopiedLog()),
        clock,
        b"",
        SharedTableSet(
            ChangeTrackingOffsets(),
            locks,
            TopicTable(BrokerConfig(), clock),
            ConsumerGroupTable(BrokerConfig(), clock),
        ),
        position=Position(lambda: 900, known_until=None),
    )


class LeaderWithLocks:
    """Answers as a leader does that has these tables; one of an older version does not tell its locks."""

    def __init__(self, shared: SharedTables, *, tells_locks: bool) -> None:
        def own_table(command: Command, connection: Connection) -> Command:
            if command.ext["name"] not in COPIED_FILES:
                return reply(command, ResponseCode.SYSTEM_ERROR, "no such table")
            return reply(command, ext={LOG_OFFSET: "900"})

        self._tell = shared.locks_handler(own_table) if tells_locks else own_table

    async def invoke(self, address: str, command: Command, timeout_s: float) -> Command:
        if command.code == RequestCode.GET_BROKER_TABLE:
            answer = self._tell(command, cast(Any, None))
            assert isinstance(answer, Command)
            return answer
        clock = ManualClock()
        bodies: dict[int, str] = {
            RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsets().encode(),
            RequestCode.GET_ALL_TOPIC_CONFIG: TopicTable(BrokerConfig(), clock).encode(),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ConsumerGroupTable(BrokerConfig(), clock).encode(),
        }
        return reply(command, ext={LOG_OFFSET: "900"}, body=bodies.get(command.code, "").encode())


@pytest.mark.parametrize("tells_locks", [True, False], ids=["leader", "older leader"])
async def test_a_new_member_knows_the_locks_of_its_group_before_it_can_be_elected(tells_locks: bool) -> None:
    """Elected without them it would give a queue to a second consumer while the first is at it."""
    clock = ManualClock()
    theirs, ours = (ChangeTrackingLocks(clock.now_ms) for _ in range(2))
    theirs.lock("G", "client-1", [QUEUE], clock.now_ms())
    ours.lock("G", "client-2", [QUEUE], clock.now_ms())  # of a part of the log that was cut
    shared = shared_tables(ours, clock)
    leader = LeaderWithLocks(shared_tables(theirs, clock), tells_locks=tells_locks)
    tables = JoinedTables(
        leader,
        topics=TopicTable(BrokerConfig(), clock),
        groups=ConsumerGroupTable(BrokerConfig(), clock),
        offsets=ConsumerOffsets(),
        copied_files=COPIED_FILES,
        files=Saved(),
        store=CopiedLog(),
        clock=clock,
        own_address="",
        shared=shared,
    )
    tables.leader_named("leader:1")
    await tables.look()
    assert shared.position.whole
    assert ours.owner("G", QUEUE, clock.now_ms()) == ("client-1" if tells_locks else "client-2")
    assert len(ours) == 1
