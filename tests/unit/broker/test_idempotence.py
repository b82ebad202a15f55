"""Idempotent producers at a running broker: whatever is sent again is stored once, and answered with its first place."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.features.idempotence.producer_marks import ProducerMark
from rocketeer.broker.features.idempotence.resends import Idempotence, IdempotenceLimits
from rocketeer.broker.features.idempotence.snapshot import FILE_NAME, Snapshots
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.errors import StoreRefused
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.layout import PendingMessage
from rocketeer.record.timers import rolled_forward
from rocketeer.store.dispatch import Dispatcher
from rocketeer.store.message_store import MessageStore
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock
from support.stores import BORN_HOST, SEGMENT_BYTES, make_store, message, open_store


def numbered(sequence: int, producer: str = "p", more: str = "") -> str:
    return f"PRODUCER_ID\x01{producer}\x02PRODUCER_SEQ\x01{sequence}\x02{more}UNIQ_KEY\x01U{sequence}"


def named(dedup_id: str, producer: str = "p") -> str:
    return f"PRODUCER_ID\x01{producer}\x02DEDUP_ID\x01{dedup_id}"


async def send_batch(broker: BrokerUnderTest, items: Sequence[tuple[bytes, str]], **ext: Any) -> Command:
    body = encode_batch([BatchItem(0, body, properties.encode()) for body, properties in items])
    header = {
        "a": "PG", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1_700_000_000_000, "h": 0,
        "i": "", "j": 0, "k": "false", "m": "true",
    }  # fmt: skip
    return await broker.ask(RequestCode.SEND_BATCH_MESSAGE, header | ext, body)


def place(answer: Command) -> tuple[str, str, str]:
    """Where it lies; ids without the broker's address, which tests change."""
    assert answer.code == 0, answer.remark
    return (
        ",".join(id[-16:] for id in answer.ext["msgId"].split(",")),
        answer.ext["queueId"],
        answer.ext["queueOffset"],
    )


async def bodies(broker: BrokerUnderTest, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in await broker.messages(topic, queue_id)]


async def test_a_number_sent_again_is_answered_with_its_first_place(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        first = await broker.send("T", b"0", properties=numbered(0))
        second = await broker.send("T", b"1", properties=numbered(1))
        assert place(await broker.send("T", b"0", properties=numbered(0))) == place(first)
        assert place(await broker.send("T", b"1", properties=numbered(1))) == place(second)
        assert place(second) != place(first)
        assert await bodies(broker) == [b"0", b"1"]


async def test_each_queue_topic_and_producer_counts_for_itself(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        for topic, queue_id, producer in (("T", 0, "p"), ("T", 1, "p"), ("U", 0, "p"), ("T", 0, "q")):
            answer = await broker.send(topic, b"x", queue_id=queue_id, properties=numbered(0, producer))
            assert answer.code == 0, answer.remark
        assert await bodies(broker) == [b"x", b"x"]


async def test_a_gap_is_refused_and_names_what_was_expected(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"0", properties=numbered(0))
        refused = await broker.send("T", b"2", properties=numbered(2))
        assert refused.code == ResponseCode.SEQUENCE_GAP
        assert "producer 'p', topic 'T', queue 0: sequence 1 expected, got 2" in refused.remark
        assert await bodies(broker) == [b"0"]
        assert (await broker.send("T", b"1", properties=numbered(1))).code == 0


async def test_a_resend_from_before_the_window_is_refused_and_not_stored(tmp_path: Path) -> None:
    async with broker_at(tmp_path, broker={"idempotent_window": 2}) as broker:
        for number in range(5):
            await broker.send("T", b"%d" % number, properties=numbered(number))
        refused = await broker.send("T", b"0", properties=numbered(0))
        assert refused.code == ResponseCode.SEQUENCE_TOO_OLD
        assert "sequence 5 expected, got 0" in refused.remark
        assert len(await bodies(broker)) == 5
        assert (await broker.send("T", b"3", properties=numbered(3))).code == 0


async def test_an_id_sent_again_is_answered_wherever_it_is_sent_to(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        first = await broker.send("T", b"a", properties=named("order-1"))
        again = await broker.send("T", b"a", queue_id=3, properties=named("order-1"))
        assert again.ext["msgId"] == first.ext["msgId"]
        assert (await broker.send("T", b"a", properties=named("order-1", "q"))).ext["msgId"] != first.ext[
            "msgId"
        ]
        assert len(await bodies(broker)) == 2
        assert await bodies(broker, "T", 3) == []


async def test_of_a_batch_only_what_is_new_is_stored(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        items = [(b"%d" % number, numbered(number)) for number in range(6)]
        first = await send_batch(broker, items[:3])
        second = await send_batch(broker, items)
        assert second.ext["queueOffset"] == "0"
        assert second.ext["msgId"].split(",")[:3] == first.ext["msgId"].split(",")
        third = await send_batch(broker, items)
        assert place(third) == place(second), "all known"
        assert await bodies(broker) == [b"%d" % number for number in range(6)]
        gap = await send_batch(broker, [(b"6", numbered(6)), (b"8", numbered(8))])
        assert gap.code == ResponseCode.SEQUENCE_GAP
        assert len(await bodies(broker)) == 6, "all or nothing"


async def test_an_id_that_stands_twice_in_a_batch_is_stored_once(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        answer = await send_batch(broker, [(b"a", named("1")), (b"b", named("2")), (b"a", named("1"))])
        ids = answer.ext["msgId"].split(",")
        assert ids[0] == ids[2] != ids[1]
        assert await bodies(broker) == [b"a", b"b"]


async def test_marks_that_cannot_be_are_refused(tmp_path: Path) -> None:
    bad = {
        "PRODUCER_ID\x01p\x02PRODUCER_SEQ\x01-1": "a number from 0 on",
        "PRODUCER_ID\x01p\x02PRODUCER_SEQ\x01one": "a number from 0 on",
        "PRODUCER_ID\x01p\x02PRODUCER_SEQ\x01" + "9" * 19: "a number from 0 on",
        "PRODUCER_ID\x01p\x02PRODUCER_SEQ\x010\x02DEDUP_ID\x01x": "has one of them",
        f"PRODUCER_ID\x01{'p' * 129}\x02PRODUCER_SEQ\x010": "129 characters",
        f"PRODUCER_ID\x01p\x02DEDUP_ID\x01{'d' * 257}": "257 characters",
    }
    async with broker_at(tmp_path) as broker:
        for properties, words in bad.items():
            refused = await broker.send("T", b"x", properties=properties)
            assert refused.code == ResponseCode.MESSAGE_ILLEGAL
            assert words in (refused.remark or "")
        for properties in ("PRODUCER_ID\x01p", "PRODUCER_SEQ\x017", "DEDUP_ID\x01x"):
            for _ in range(2):
                assert (await broker.send("T", b"plain", properties=properties)).code == 0
        assert await bodies(broker) == [b"plain"] * 6


async def test_all_is_known_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    places = []
    for _ in range(3):
        async with broker_at(tmp_path, clock=clock) as broker:
            places.append(
                [
                    place(await broker.send("T", b"n", properties=numbered(0))),
                    place(await broker.send("T", b"d", properties=numbered(1, more="DELAY\x011\x02"))),
                    place(await broker.send("T", b"i", properties=named("1"))),
                ]
            )
            refused = await broker.send("T", b"x", properties=numbered(7))
            assert "sequence 2 expected, got 7" in (refused.remark or "")
    assert places[0] == places[1] == places[2]


async def test_what_the_broker_puts_back_is_no_resend(tmp_path: Path) -> None:
    """A delay that is over and a consumer's next try carry the producer's mark, too."""
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        first = place(await broker.send("T", b"late", properties=numbered(0, more="DELAY\x011\x02")))
        assert place(await broker.send("T", b"late", properties=numbered(0, more="DELAY\x011\x02"))) == first
        clock.advance(ms=1_000)
        (back,) = await broker.messages("T", 0, sysFlag=6, suspendTimeoutMillis=15_000)
        for group in ("CG", "CH"):
            header = {"offset": back.log_offset, "group": group, "delayLevel": 1}
            assert (await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code == 0
        clock.advance(ms=1_000)
        for group in ("CG", "CH"):
            tries = await broker.messages(f"%RETRY%{group}", 0, sysFlag=6, suspendTimeoutMillis=15_000)
            assert [message.body for message in tries] == [b"late"]
    async with broker_at(tmp_path, clock=clock) as broker:
        assert place(await broker.send("T", b"late", properties=numbered(0, more="DELAY\x011\x02"))) == first
        assert place(await broker.send("T", b"1", properties=numbered(1)))
        assert await bodies(broker) == [b"late", b"1"]


async def test_a_producer_learns_where_it_was(tmp_path: Path) -> None:
    asked = {"producerId": "p", "topic": "T", "queueId": 0}
    async with broker_at(tmp_path) as broker:
        for number in range(3):
            await broker.send("T", b"x", properties=numbered(number))
        answer = await broker.ask(RequestCode.GET_PRODUCER_SEQUENCE, asked)
        assert answer.ext == {"nextSequence": "3", "oldestSequence": "0"}
        answer = await broker.ask(RequestCode.GET_PRODUCER_SEQUENCE, asked | {"producerId": "new"})
        assert answer.ext == {"nextSequence": "0", "oldestSequence": "0"}


async def test_a_snapshot_that_is_ahead_of_the_log_is_not_believed(tmp_path: Path) -> None:
    """A power failure took the end of the log; or somebody put an older copy of it in place."""
    clock = ManualClock()
    store, older = tmp_path / "store", tmp_path / "older"
    async with broker_at(store, clock=clock) as broker:
        for number in range(3):
            await broker.send("T", b"x", properties=numbered(number))
    shutil.copytree(store, older)
    async with broker_at(store, clock=clock) as broker:
        for number in range(3, 6):
            await broker.send("T", b"x", properties=numbered(number))
        await broker.send("T", b"x", properties=named("1"))
    shutil.copy(store / "config" / FILE_NAME, older / "config")
    async with broker_at(older, clock=clock) as broker:
        assert (await broker.send("T", b"i", properties=named("1"))).code == 0
        refused = await broker.send("T", b"x", properties=numbered(6))
        assert "sequence 3 expected, got 6" in (refused.remark or "")
        assert await bodies(broker) == [b"x", b"x", b"x", b"i"]
    # The log has grown past what the snapshot stands for, but it is another log.
    async with broker_at(older, clock=clock) as broker:
        for _ in range(50):
            await broker.send("T", b"filler", properties="KEYS\x01k")
    shutil.copy(store / "config" / FILE_NAME, older / "config")
    async with broker_at(older, clock=clock) as broker:
        refused = await broker.send("T", b"x", properties=numbered(6))
        assert "sequence 3 expected, got 6" in (refused.remark or "")


async def test_a_damaged_record_does_not_make_a_snapshot_one_of_another_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The snapshot knows more than the log can tell: what was delivered, and its original deleted since."""
    clock = ManualClock()
    async with broker_at(tmp_path, clock=clock) as broker:
        first = place(await broker.send("T", b"i", properties=named("1")))
        assert (await broker.send("T", b"body of the last", properties=numbered(0))).code == 0
    log = tmp_path / "commitlog" / f"{0:020d}"
    content = log.read_bytes()
    at = content.index(b"body of the last")
    with log.open("r+b") as file:
        file.seek(at)
        file.write(b"X")
    async with broker_at(tmp_path, clock=clock) as broker:
        assert place(await broker.send("T", b"i", properties=named("1"))) == first
        refused = await broker.send("T", b"x", properties=numbered(7))
        assert "sequence 1 expected, got 7" in (refused.remark or "")
    assert "of another log" not in caplog.text


async def test_a_broken_snapshot_is_made_again_from_the_log(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        first = place(await broker.send("T", b"x", properties=numbered(0)))
    (tmp_path / "config" / FILE_NAME).write_bytes(b"RKTS broken")
    async with broker_at(tmp_path) as broker:
        assert place(await broker.send("T", b"x", properties=numbered(0))) == first


async def test_a_number_with_another_message_is_refused(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"mine", properties=numbered(0))
        refused = await broker.send("T", b"yours", properties=numbered(0))
        assert refused.code == ResponseCode.SEQUENCE_TAKEN
        assert "do two producers use one id?" in (refused.remark or "")


def test_a_resend_waits_until_the_first_is_as_durable_as_asked_for(tmp_path: Path) -> None:
    waiting: list[tuple[int, Callable[[int], None]]] = []
    store, table = opened(tmp_path)
    writer = Writer(
        store,
        message_bytes_max=1 << 20,
        counters=Counters(),
        resends=[table.examining],
        durability=[lambda end, done: waiting.append((end, done))],
    )
    outcomes: list[WriteResult] = []
    for number in (0, 1, 0):
        message = PendingMessage("T", 0, 0, 0, 1, BORN_HOST, b"x", numbered(number).encode())
        writer.put(message, outcomes.append)
    assert not outcomes
    assert [end for end, _ in waiting] == [waiting[0][0], waiting[1][0], waiting[0][0]]
    for _, done in waiting:
        done(0)
    assert outcomes[0].appended[0].log_offset == outcomes[2].appended[0].log_offset
    store.close()


def test_a_resend_is_answered_while_the_disk_is_full(tmp_path: Path) -> None:
    store, table = opened(tmp_path)
    writer = Writer(store, message_bytes_max=1 << 20, counters=Counters(), resends=[table.examining])

    def put(number: int) -> WriteResult:
        outcomes: list[WriteResult] = []
        message = PendingMessage("T", 0, 0, 0, 1, BORN_HOST, b"x", numbered(number).encode())
        writer.put(message, outcomes.append)
        return outcomes[0]

    first = put(0)
    store.log.refuse(StoreRefused(StoreRefused.DISK_FULL, "95%"))
    assert put(1).code == ResponseCode.SERVICE_NOT_AVAILABLE
    again = put(0)
    assert (again.code, again.appended[0].log_offset) == (0, first.appended[0].log_offset)
    store.log.refuse(None)
    assert put(1).code == 0, "it was not stored, so it is no resend"
    store.close()


async def test_a_running_broker_saves_its_tables_now_and_then(tmp_path: Path) -> None:
    clock = ManualClock()
    store = make_store(tmp_path, clock=clock, post=asyncio.get_running_loop().call_soon_threadsafe)
    store.open()
    path = tmp_path / "config" / FILE_NAME

    def started() -> Snapshots:
        return Snapshots(IdempotenceLimits(ids=100), store, clock, path=path, segment_bytes=SEGMENT_BYTES)

    running = started()
    assert running.load() == 0
    running.loaded()
    writer = Writer(store, message_bytes_max=1 << 20, counters=Counters(), resends=[running.table.examining])
    message = PendingMessage("T", 0, 0, 0, 1, BORN_HOST, b"x", numbered(0).encode())
    writer.put(message, lambda put: None)
    await running.keep()
    assert started().load() == 0, "not yet: the log is short, and it was just saved"
    clock.advance(ms=60_000)
    await running.keep()
    again = started()
    assert again.load() == store.max_log_offset
    assert again.table.sequences.expected(("p", "T", 0)) == 1
    store.close()


def opened(folder: Path) -> tuple[MessageStore, Idempotence]:
    store, _ = open_store(folder)
    return store, Idempotence(IdempotenceLimits(ids=100), store, salt=b"salt")


def test_an_id_is_known_as_long_as_its_message_waits_however_often_that_is_rolled_forward(
    tmp_path: Path,
) -> None:
    store, table = opened(tmp_path)
    store.dispatchers.append(Dispatcher(table.moved, pointing=True))
    waiting = {
        "PRODUCER_ID": "p", "DEDUP_ID": "order-7", "TIMER_OUT_MS": "9", "REAL_TOPIC": "T", "REAL_QID": "0",
    }  # fmt: skip
    first = store.append(message(b"x", TIMER_TOPIC, properties=waiting))
    table.remember(ProducerMark("p", None, "order-7"), "T", 0, first)
    place = first
    for _ in range(3):
        stored = store.message_at(place.log_offset)
        assert stored is not None
        place = store.append(rolled_forward(stored))
    found = table.find_id(ProducerMark("p", None, "order-7"))
    assert found is not None
    assert found.log_offset == place.log_offset, "not in a file that is about to go"
    started = Idempotence(IdempotenceLimits(ids=100), store, salt=b"other")
    for entry in store.scan(0):
        started.on_message(entry)
    found = started.find_id(ProducerMark("p", None, "order-7"))
    assert found is not None
    assert found.log_offset == place.log_offset
    store.close()
