"""What a slave or recovery derives from log bytes is what was derived from the messages, in runs or one by one."""

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rocketeer.compiled import COMPILED
from rocketeer.config import BrokerRole
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import TX_PREPARED, TX_ROLLBACK
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage
from rocketeer.store import log_bytes_plain
from rocketeer.store.dispatch import Dispatch, Dispatcher
from rocketeer.store.index import Index
from rocketeer.store.log_bytes_dispatcher import LogBytesDispatcher
from rocketeer.store.message_store import MessageStore
from support.stores import bodies, derived_files, kill, make_store, message, open_store, query, read_queue

KINDS = sorted({LogBytesDispatcher, log_bytes_plain.LogBytesDispatcher}, key=lambda kind: kind.__module__)
needs_runs = pytest.mark.skipif(not COMPILED, reason="without compiled modules there are no runs")
KEYS = [f"k{number}" for number in range(40)]
NO_UTF_8 = b"\x01a\xff"


def any_message(chance: random.Random) -> PendingMessage:
    """Mostly plain; each reason not to be plain comes up."""
    body = chance.randbytes(chance.choice([0, 10, 200, 3000]))
    topic = chance.choice(["A", "A", "B", "C", "Followed"])
    queue_id = chance.randrange(3)
    words = chance.sample(KEYS, chance.randrange(4))
    kind = chance.randrange(12)
    if kind == 0:
        return message(body, topic, queue_id, properties={"claimed": "x"}, keys=" ".join(words))
    if kind == 1:
        mark = chance.choice([b"TAGS", b"KEYS", b"UNIQ_KEY"])
        return replace(message(body, topic, queue_id), properties=mark + NO_UTF_8)
    if kind == 2:
        return message(body, "Größe", queue_id, keys=" ".join(words))
    if kind == 3:
        return message(
            body, topic, queue_id, sys_flag=chance.choice([TX_PREPARED, TX_ROLLBACK]), uniq_key=KEYS[3]
        )
    if kind == 4:
        return message(body, topic, queue_id, born_host=encode_host("2001:db8::1", 4000))
    if kind == 5:
        return message(body, "SCHEDULE_TOPIC_XXXX", 1, properties={"DELAY": "2"})
    tags = chance.choice([None, "", "t", "六", "a much longer tag"])
    keys = "  ".join([*words, "中文"][: chance.randrange(5)])
    return message(body, topic, queue_id, tags=tags, keys=keys, uniq_key=chance.choice(KEYS))


def found_by_key(store: MessageStore) -> list[list[int]]:
    return [
        [each.log_offset for each in query(store, topic, key, 0, 1 << 62, 64).messages]
        for topic in ("A", "B", "C", "Followed", "Größe")
        for key in (*KEYS, "中文", "a\ufffd")
    ]


def dispatchers(seen: list[DispatchEntry], queues: set[tuple[str, int]]) -> list[Dispatcher]:
    return [
        Dispatcher(seen.append, topics=frozenset({"Followed"}), properties=("claimed",)),
        Dispatcher(lambda entry: queues.add((entry.topic, entry.queue_id)), each_queue=True),
    ]


@pytest.mark.parametrize("piece_bytes", [61, 5_000, 50_000])
@pytest.mark.parametrize("seed", range(3))
def test_queues_index_and_dispatchers_have_what_the_masters_have(
    tmp_path: Path, seed: int, piece_bytes: int
) -> None:
    chance = random.Random(seed)
    of_master: list[DispatchEntry] = []
    of_slave: list[DispatchEntry] = []
    queues: set[tuple[str, int]] = set()
    master, _ = open_store(tmp_path / "master", delay_levels="1s 5s 10s")
    slave, _ = open_store(tmp_path / "slave", delay_levels="1s 5s 10s", broker_role=BrokerRole.SLAVE)
    master.dispatchers.extend(dispatchers(of_master, set()))
    slave.dispatchers.extend(dispatchers(of_slave, queues))
    for number in range(400):
        master.append(any_message(chance))
        if number % 90 == 89:
            master.delete_topic(chance.choice("AB"))  # its queues begin again, in the middle of a piece
    end = master.log.max_offset
    while slave.log.max_offset < end:
        at = slave.log.max_offset
        size = min(piece_bytes, end - at, master.log.next_segment_offset(at) - at)
        data = master.log.read(at, size)
        assert data is not None
        slave.append_raw(at, data)
    assert of_slave == of_master
    assert queues >= set(master.queues())
    assert found_by_key(slave) == found_by_key(master)
    master.close()
    slave.close()
    assert derived_files(tmp_path / "slave") == derived_files(tmp_path / "master")


@needs_runs
def test_most_messages_are_dispatched_in_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = a_pair(tmp_path, 200)
    one_by_one: list[int] = []
    apply = Dispatch.apply
    monkeypatch.setattr(
        Dispatch, "apply", lambda self, entries: (one_by_one.append(len(entries)), apply(self, entries))[1]
    )
    copied = log_of(master)
    slave.append_raw(0, copied[: len(copied) // 4])
    slave.append_raw(len(copied) // 4, copied[len(copied) // 4 :])
    assert read_queue(slave) == read_queue(master)
    assert sum(one_by_one) < 60, "the first piece makes the queue known"
    slave.forget_copied_queues()
    master.append(message(b"a topic changed"))
    slave.append_raw(len(copied), log_of(master)[len(copied) :])
    assert one_by_one[-1] == 1, "whoever follows queues is told once more"
    master.close()
    slave.close()


@needs_runs
@pytest.mark.parametrize(
    ("changes", "plain"),
    [
        ({"properties": "TAGS\x01六\x02KEYS\x01 中文  k\x02u\x01v".encode()}, True),
        ({"properties": b"KEYS" + NO_UTF_8}, False),
        ({"properties": b"TAGS" + NO_UTF_8}, False),
        ({"topic": "Größe"}, False),
        ({"born_host": encode_host("2001:db8::1", 4000)}, False),
        ({"prepared_offset": 7}, False),
    ],
)
def test_which_messages_are_dispatched_in_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], plain: bool
) -> None:
    master, slave = a_pair(tmp_path, 0)
    master.append(replace(message(), topic=changes.get("topic", "TopicTest")))  # makes its queue known
    slave.append_raw(0, log_of(master))
    known = slave.log.max_offset
    one_by_one: list[DispatchEntry] = []
    apply = Dispatch.apply
    for _ in range(3):
        master.append(replace(message(), **changes))
    monkeypatch.setattr(
        Dispatch, "apply", lambda self, entries: (one_by_one.extend(entries), apply(self, entries))[1]
    )
    slave.append_raw(known, log_of(master)[known:])
    assert len(one_by_one) == (0 if plain else 3)
    master.close()
    slave.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__module__)
@pytest.mark.parametrize("seed", range(3))
def test_recovery_derives_what_was_derived_before_the_process_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, kind: type[LogBytesDispatcher]
) -> None:
    chance = random.Random(seed)
    first, _ = open_store(tmp_path / "first", delay_levels="1s 5s 10s")
    for number in range(400):
        first.append(any_message(chance))
        if number % 90 == 89:
            first.delete_topic(chance.choice("AB"))
    copy = kill(first, tmp_path / "copy")
    monkeypatch.setattr("rocketeer.store.redo.RUN_MESSAGES", 7)
    monkeypatch.setattr("rocketeer.store.redo.LogBytesDispatcher", kind)
    again, report = open_store(copy, delay_levels="1s 5s 10s")
    assert report.redone_messages >= 400
    assert found_by_key(again) == found_by_key(first)
    assert again.dispatch.last_store_ms == first.dispatch.last_store_ms
    first.close()
    again.close()
    assert derived_files(copy) == derived_files(tmp_path / "first")


@needs_runs
def test_recovery_dispatches_most_messages_in_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = open_store(tmp_path / "first")
    for number in range(200):
        first.append(message(b"%d" % number, queue_id=number % 4))
    copy = kill(first, tmp_path / "copy")
    first.close()
    one_by_one: list[DispatchEntry] = []
    redo = Dispatch.redo
    monkeypatch.setattr(
        Dispatch,
        "redo",
        lambda self, entry, put: (one_by_one.append(entry), redo(self, entry, put))[1],
    )
    again, report = open_store(copy)
    assert report.redone_messages == 200
    assert len(one_by_one) == 4, "the first message of a queue makes it known"
    assert [body for queue in range(4) for body in bodies(again, queue_id=queue)] == [
        b"%d" % number for queue in range(4) for number in range(queue, 200, 4)
    ]
    again.close()


def test_a_queue_that_was_removed_is_not_written_to(tmp_path: Path) -> None:
    """A master of 4.9.8 says nothing in the log when a topic goes: the slave learns it from the table."""
    master, slave = a_pair(tmp_path, 50)
    copied = log_of(master)
    slave.append_raw(0, copied)
    gone = slave.queue_table.get("TopicTest", 0)
    slave.delete_topic("TopicTest")
    master.append(message(b"later"))
    slave.append_raw(len(copied), log_of(master)[len(copied) :])
    again = slave.queue_table.get("TopicTest", 0)
    assert again is not gone
    assert (gone.max_offset, again.max_offset) == (0, 51)
    master.close()
    slave.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__module__)
def test_what_could_not_be_dispatched_is_dispatched_with_the_next_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[LogBytesDispatcher]
) -> None:
    monkeypatch.setattr("rocketeer.store.replica.LogBytesDispatcher", kind)
    master, slave = a_pair(tmp_path, 1_500)
    copied = log_of(master)
    slave.append_raw(0, copied[:2_000])
    told: list[int] = []
    slave.listeners.append(({("TopicTest", 0)}, lambda topic, queue_id, end: told.append(end)))

    def fail() -> None:
        raise MemoryError("once")

    with monkeypatch.context() as failing:
        failing.setattr(Index, "extend", lambda self, entries: fail())
        failing.setattr(Index, "extend_columns", lambda self, *columns: fail())
        with pytest.raises(MemoryError, match="once"):
            slave.append_raw(2_000, copied[2_000:30_000])
    assert slave.log.max_offset == 30_000
    reached = slave.queue_table.get("TopicTest", 0).max_offset
    assert told == []
    slave.append_raw(30_000, copied[30_000:])
    assert told == [reached, 1_500], (
        "who waits for messages learns of those that came with the bytes that failed"
    )
    assert bodies(slave) == bodies(master)
    assert [len(query(slave, "TopicTest", f"k{number}", 0, 1 << 62, 9).messages) for number in (5, 50, 1_400)] == [
        1, 1, 1,
    ]  # fmt: skip
    master.close()
    slave.close()


@pytest.mark.passes_over
def test_a_message_at_which_a_dispatcher_fails_holds_up_neither_master_nor_slave(tmp_path: Path) -> None:
    master, slave = a_pair(tmp_path, 20)

    def fail(entry: DispatchEntry) -> None:
        raise ValueError(entry.keys)

    for store in (master, slave):
        seen: list[int] = []
        store.dispatchers.append(Dispatcher(fail, properties=("strange",)))
        store.dispatchers.append(Dispatcher(lambda entry, seen=seen: seen.append(1), properties=("strange",)))  # type: ignore[misc]
    master.append(message(b"strange", properties={"strange": "x"}))
    master.append(message(b"after"))
    slave.append_raw(0, log_of(master))
    assert bodies(slave) == bodies(master)
    assert bodies(slave)[-1] == b"after"
    assert seen == [1], "others see it"
    master.close()
    slave.close()


def a_pair(tmp_path: Path, count: int) -> tuple[MessageStore, MessageStore]:
    master = make_store(tmp_path / "master", segment_bytes=1 << 20)
    master.open()
    for number in range(count):
        master.append(message(b"%d" % number, keys=f"k{number}"))
    slave = make_store(tmp_path / "slave", segment_bytes=1 << 20, broker_role=BrokerRole.SLAVE)
    slave.open()
    return master, slave


def log_of(store: MessageStore) -> bytes:
    return bytes(store.log.read(0, store.log.max_offset) or b"")
