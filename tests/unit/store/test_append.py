"""Appending: one message, parts of one, many at once, copied bytes; all the same bytes and the same entries."""

from pathlib import Path

import pytest

from rocketeer.config import BrokerRole
from rocketeer.errors import StoreError, StoreRefused
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, entry_at
from rocketeer.record.flags import TX_COMMIT, TX_PREPARED, TX_ROLLBACK
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage, decode_record, encode_pending
from rocketeer.store.dispatch import Dispatcher
from rocketeer.store.message_store import GetStatus, MessageStore
from support.clock import ManualClock
from support.stores import (
    BORN_HOST,
    SEGMENT_BYTES,
    STORE_HOST,
    append_batch,
    bodies,
    derived_files,
    make_store,
    message,
    open_store,
    query,
    read_queue,
)

LEVELS = DelayLevels.parse("1s 5s 10s")
VARIED = [
    message(b"plain"),
    message(b"", topic="Empty-Body"),
    message(b"tagged", tags="TagA", keys="k1 k2", uniq_key="7F0000010001"),
    message(b"\0" * 3000, queue_id=3, properties={"a": "\x03", "中文": "值"}),
    message(b"half", sys_flag=TX_PREPARED),
    message(b"commit", sys_flag=TX_COMMIT, tags="TagB"),
    message(b"rolled back", sys_flag=TX_ROLLBACK, keys="k3"),
    message(b"v6", born_host=encode_host("2001:db8::1", 4000), tags="六"),
    message(b"later", topic="SCHEDULE_TOPIC_XXXX", queue_id=1, properties={"DELAY": "2"}),
    message(b"x" * 9000, topic="Other", tags=""),
]


def whole_log(store: MessageStore) -> bytes:
    parts = [bytes(segment.map_in()) for segment in store.log.segments]
    return b"".join(parts)[: store.log.max_offset - store.log.min_offset]


def state(store: MessageStore, folder: Path) -> tuple[bytes, dict[str, bytes], list[tuple[int, ...]]]:
    """Log, queues (as files after a close), and what the index answers."""
    log = whole_log(store)
    assert store.index is not None
    found = [
        tuple(each.log_offset for each in query(store, topic, key, 0, 1 << 62, 64).messages)
        for topic in ("TopicTest", "Other")
        for key in ("k1", "k2", "k3", "7F0000010001")
    ]
    store.close()
    return log, derived_files(folder), found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_message_reads_back_as_it_was_written(folder: Path) -> None:
    store, _ = open_store(folder, delay_levels="1s 5s 10s")
    clock_ms = ManualClock().now_ms()
    appended = [store.append(each) for each in VARIED]
    for pending, where in zip(VARIED, appended, strict=True):
        found = store.message_at(where.log_offset)
        assert found is not None
        assert (found.topic, found.queue_id, found.body) == (pending.topic, pending.queue_id, pending.body)
        assert (found.properties, found.born_host) == (pending.properties, pending.born_host)
        assert (found.size, found.queue_offset) == (where.size, where.queue_offset)
        assert found.store_ms == where.store_ms == clock_ms
        assert where.end == where.log_offset + where.size
    store.close()


@pytest.mark.parametrize("store_host", [STORE_HOST, encode_host("2001:db8::2", 10911)])
def test_the_bytes_are_those_of_the_record_codec(folder: Path, store_host: bytes) -> None:
    store, _ = open_store(folder, store_host=store_host)
    for pending in VARIED:
        where = store.append(pending, 1_650_000_000_000)
        raw = store.log.read(where.log_offset, where.size)
        assert raw is not None
        assert bytes(raw) == encode_pending(
            pending,
            queue_offset=where.queue_offset,
            log_offset=where.log_offset,
            store_ms=1_650_000_000_000,
            store_host=store_host,
        )
    store.close()


def test_append_hands_over_the_entry_that_the_log_bytes_give(folder: Path) -> None:
    store, _ = open_store(folder, delay_levels="1s 5s 10s")
    entries: list[DispatchEntry] = []
    store.dispatchers.append(Dispatcher(entries.append, each_queue=True))
    for pending in VARIED:
        store.append(pending)
    append_batch(store, VARIED[:3])
    for entry in entries:
        raw = store.log.read(entry.log_offset, entry.size)
        assert raw is not None
        assert entry_at(raw, 0, LEVELS, check_crc=True) == entry
    assert len(entries) == len(VARIED) + 3
    store.close()


def test_every_way_of_appending_gives_the_same_store(tmp_path: Path) -> None:
    one, _ = open_store(tmp_path / "one", delay_levels="1s 5s 10s")
    batch, _ = open_store(tmp_path / "batch", delay_levels="1s 5s 10s")
    raw, _ = open_store(tmp_path / "raw", delay_levels="1s 5s 10s", broker_role=BrokerRole.SLAVE)
    many = VARIED * 8  # several segments
    for pending in many:
        one.append(pending)
        append_batch(batch, [pending])
    copied = whole_log(one)
    for at in range(0, len(copied), 777):  # cut anywhere, as replication does
        raw.append_raw(at, copied[at : at + 777])
    expected = state(one, tmp_path / "one")
    assert state(batch, tmp_path / "batch") == expected
    assert state(raw, tmp_path / "raw") == expected


def test_prepared_and_rolled_back_messages_are_in_no_queue(folder: Path) -> None:
    store, _ = open_store(folder)
    told: list[tuple[str, int, int]] = []
    store.listeners.append(([("TopicTest", 0)], lambda *args: told.append(args)))
    store.append(message(b"seen"))
    for flag in (TX_PREPARED, TX_ROLLBACK):
        assert store.append(message(b"unseen", sys_flag=flag, keys="key")).queue_offset == 0
    store.append(message(b"committed", sys_flag=TX_COMMIT))
    assert bodies(store) == [b"seen", b"committed"]
    assert told == [("TopicTest", 0, 1), ("TopicTest", 0, 2)]
    assert [each.sys_flag for each in query(store, "TopicTest", "key", 0, 1 << 62, 10).messages] == [
        TX_PREPARED
    ]
    store.close()


def test_records_never_cross_files_and_a_blank_ends_each(folder: Path) -> None:
    store, _ = open_store(folder)
    for size in range(0, 9000, 250):
        store.append(message(b"z" * size))
    assert len(store.log.segments) > 2
    for segment in store.log.segments[:-1]:
        entries, at = [], 0
        while not entries or isinstance(entries[-1], DispatchEntry):
            entries.append(entry_at(segment.map_in(), at, LEVELS, check_crc=True))
            at += entries[-1].size  # type: ignore[union-attr]
        assert at == SEGMENT_BYTES, "the blank says how much is left"
    assert [len(body) for body in bodies(store)] == list(range(0, 9000, 250))
    store.close()


@pytest.mark.parametrize("left", [8, 9, 100])
def test_a_record_may_leave_just_the_room_for_the_blank(folder: Path, left: int) -> None:
    store, _ = open_store(folder, message_bytes_max=SEGMENT_BYTES)
    overhead = 88 + 1 + len("TopicTest") + 2
    store.append(message(b"a" * (SEGMENT_BYTES - overhead - left)))
    assert store.log.max_offset == SEGMENT_BYTES - left
    store.append(message(b"b" * 10))
    assert store.log.segments[-1].base == (SEGMENT_BYTES if left < overhead + 18 else 0)
    assert [body[:1] for body in bodies(store)] == [b"a", b"b"]
    store.close()


def test_what_fits_no_file_is_refused(folder: Path) -> None:
    store, _ = open_store(folder, message_bytes_max=2 * SEGMENT_BYTES)
    with pytest.raises(StoreRefused, match="does not fit") as refused:
        store.append(message(b"a" * SEGMENT_BYTES))
    assert refused.value.reason == StoreRefused.TOO_LARGE
    assert store.append(message(b"small")).log_offset == 0
    store.close()


@pytest.mark.parametrize(
    ("pending", "reason"),
    [
        (message(b"a" * 1001), StoreRefused.TOO_LARGE),
        (message(properties={"p": "v" * 32767}), StoreRefused.PROPERTIES_TOO_LONG),
        (message(topic="t" * 128), StoreRefused.TOO_LARGE),
        (message(topic="../../etc"), StoreRefused.BAD_TOPIC),
        (message(topic=""), StoreRefused.TOO_LARGE),
    ],
)
def test_what_breaks_a_limit_is_refused_and_leaves_no_trace(
    folder: Path, pending: PendingMessage, reason: str
) -> None:
    store, _ = open_store(folder, message_bytes_max=1000)
    for append in (store.append, lambda one: append_batch(store, [message(), one])):
        with pytest.raises(StoreRefused) as refused:
            append(pending)
        assert refused.value.reason == reason
    assert store.log.max_offset == 0
    assert store.get("TopicTest", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE
    store.append(message(b"a" * 1000, topic="t" * 127))
    store.close()


def test_a_batch_is_one_run_within_one_file(folder: Path) -> None:
    store, _ = open_store(folder)
    store.append(message(b"a" * 15_000))
    batch = [message(b"%d" % (number % 10) * 1000, queue_id=number % 2) for number in range(15)]
    for _ in range(6):
        where = append_batch(store, batch)
        assert [each.log_offset for each in where[1:]] == [each.end for each in where[:-1]]
        assert where[0].log_offset // SEGMENT_BYTES == (where[-1].end - 1) // SEGMENT_BYTES
    assert append_batch(store, []) == []
    assert bodies(store, queue_id=1) == [each.body for each in batch[1::2]] * 6
    offsets = [each.queue_offset for each in read_queue(store, queue_id=1)]
    assert offsets == list(range(len(offsets)))
    store.close()


def test_a_batch_larger_than_a_message_may_be_is_refused(folder: Path) -> None:
    store, _ = open_store(folder, message_bytes_max=1000)
    with pytest.raises(StoreRefused):
        append_batch(store, [message(b"a" * 600)] * 2)
    assert store.log.max_offset == 0
    store.close()


def test_copied_bytes_must_follow_the_log_and_be_records(tmp_path: Path) -> None:
    master, _ = open_store(tmp_path / "master")
    slave, _ = open_store(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    for number in range(10):
        master.append(message(b"%d" % number))
    copied = whole_log(master)
    slave.append_raw(0, copied[:300])
    with pytest.raises(StoreError, match="do not follow"):
        slave.append_raw(0, copied)
    for bad in (b"\xff" * 400, bytes(400), copied[:400]):
        with pytest.raises(StoreError, match="not the log's"):
            slave.append_raw(300, bad)
    assert slave.log.max_offset == 300
    slave.append_raw(300, copied[300:])
    assert bodies(slave) == bodies(master)
    for size in (0, 5000):
        with pytest.raises(StoreRefused, match="slave"):
            slave.append(message(b"x" * size))
    master.close()
    slave.close()


def test_a_copy_that_stops_within_a_record_goes_on_before_it(tmp_path: Path) -> None:
    master, _ = open_store(tmp_path / "master")
    for number in range(10):
        master.append(message(b"%d" % number, keys=f"k{number}"))
    copied = whole_log(master)
    slave, _ = open_store(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    slave.append_raw(0, copied[: len(copied) // 2 + 7])
    whole = len(read_queue(slave))
    slave.close()
    slave, report = open_store(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    assert report.redone_messages == 0
    assert report.torn_bytes > 0
    assert len(read_queue(slave)) == whole
    slave.append_raw(slave.log.max_offset, copied[slave.log.max_offset :])
    assert read_queue(slave) == read_queue(master)
    slave.close()
    master.close()


def test_a_copy_may_start_at_any_file_of_the_master(tmp_path: Path) -> None:
    master, _ = open_store(tmp_path / "master")
    for _ in range(30):
        master.append(message(b"m" * 5000))
    copied = whole_log(master)[SEGMENT_BYTES:]
    slave, _ = open_store(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    slave.append_raw(SEGMENT_BYTES, copied)
    assert slave.log.min_offset == SEGMENT_BYTES
    assert slave.max_queue_offset("TopicTest", 0) == 30
    assert read_queue(slave) == read_queue(master)[slave.min_queue_offset("TopicTest", 0) :]
    slave.close()
    reopened, report = open_store(tmp_path / "slave")
    assert report.actions == ()
    assert reopened.log.min_offset == SEGMENT_BYTES
    assert reopened.min_queue_offset("TopicTest", 0) > 0
    reopened.close()
    master.close()


def test_a_closed_or_unopened_store_refuses_messages(folder: Path) -> None:
    store = make_store(folder)
    with pytest.raises(StoreRefused, match="not open"):
        store.append(message())
    store.open()
    store.append(message())
    store.close()
    with pytest.raises(StoreRefused, match="shut down"):
        store.append(message())


def test_views_of_a_deleted_file_stay_readable(folder: Path) -> None:
    store, _ = open_store(folder)
    while len(store.log.segments) < 3:
        store.append(message(b"v" * 5000))
    fetched = store.get("TopicTest", 0, 0, 5)
    before = b"".join(fetched.parts)
    store.log.drop_first().unlink()
    assert b"".join(fetched.parts) == before
    assert store.message_at(0) is None
    assert decode_record(before, 0).body == b"v" * 5000
    assert decode_record(before, 0).born_host == BORN_HOST
    store.close()
