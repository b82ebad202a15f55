"""Batches that take the general way are stored in steps: others are served in between, and nothing else changes."""

import asyncio
from pathlib import Path

from rocketeer.broker.features.idempotence.resends import Idempotence, IdempotenceLimits
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, decode_frame, encode, request
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.layout import PendingMessage
from rocketeer.remoting.address import split_address
from rocketeer.steps import Steps, finish
from support.broker import broker_at
from support.records import split_records
from support.senders import send_header
from support.stores import BORN_HOST, open_store

MANY = 2_000


def batch(topic: str, properties: bytes = b"KEYS\x01\xff\x02") -> Command:
    """Keys that are not UTF-8 keep it off the compiled way."""
    items = [BatchItem(0, b"%d" % number, properties) for number in range(MANY)]
    return request(320, send_header(topic, 0, "", batch=True), encode_batch(items))


async def test_what_a_connection_sends_behind_a_batch_is_stored_behind_it(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"creates the topic", queue_id=3)
        reader, writer = await asyncio.open_connection(*split_address(broker.address))
        last = request(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
        asked = [batch("T"), request(310, send_header("T", 0, ""), b"plain"), batch("T"), last]
        writer.write(b"".join(map(encode, asked)))
        splitter, replies = FrameSplitter(), list[Command]()
        while len(replies) < len(asked):
            data = await asyncio.wait_for(reader.read(1 << 16), 60)
            assert data, "the broker closed the connection"
            replies += [decode_frame(*frame) for frame in splitter.feed(data)]
        writer.close()
        assert [reply.opaque for reply in replies] == [each.opaque for each in asked]
        places = [reply.ext.get("queueOffset", reply.ext.get("offset")) for reply in replies]
        assert places == ["0", str(MANY), str(MANY + 1), str(2 * MANY + 1)]
        around = [(await broker.messages("T", 0, offset))[0].body for offset in (MANY - 1, MANY, MANY + 1)]
        assert around == [b"%d" % (MANY - 1), b"plain", b"0"]


async def test_others_are_served_while_a_batch_is_made_ready(tmp_path: Path) -> None:
    """Its own reply comes last: it was sent first, and is far more work."""
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"creates the topic", queue_id=3)
        _, busy = await asyncio.open_connection(*split_address(broker.address))
        busy.write(encode(batch("T")) * 8)
        answered = await broker.send("T", b"in between", queue_id=1)
        assert answered.code == ResponseCode.SUCCESS
        stored = await broker.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
        assert int(stored.ext["offset"]) < 8 * MANY
        busy.close()


async def test_a_batch_of_a_peer_that_leaves_in_the_middle_is_stored_whole_or_not_at_all(
    tmp_path: Path,
) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"creates the topic", queue_id=3)
        for _ in range(4):
            _, writer = await asyncio.open_connection(*split_address(broker.address))
            writer.write(encode(batch("T")))
            await writer.drain()
            writer.transport.abort()
        sent = await broker.send("T", b"behind them")
        assert int(sent.ext["queueOffset"]) % MANY == 0


def ids(*names: str) -> list[PendingMessage]:
    return [
        PendingMessage(
            "T", 0, 0, 0, 1, BORN_HOST, name.encode(), f"PRODUCER_ID\x01p\x02DEDUP_ID\x01{name}".encode()
        )
        for name in names
    ]


def numbers(*sequence: int) -> list[PendingMessage]:
    return [
        PendingMessage("T", 0, 0, 0, 1, BORN_HOST, b"%d" % n, b"PRODUCER_ID\x01p\x02PRODUCER_SEQ\x01%d" % n)
        for n in sequence
    ]


class Writing:
    """A writer that knows idempotent producers."""

    def __init__(self, folder: Path) -> None:
        self.store, _ = open_store(folder)
        self.table = Idempotence(IdempotenceLimits(ids=100), self.store, salt=b"salt")
        self.writer = Writer(
            self.store, message_bytes_max=1 << 20, counters=Counters(), resends=[self.table.examining]
        )

    def begun(self, messages: list[PendingMessage], outcome: list[WriteResult]) -> Steps[None]:
        """All but the last step is done."""
        count = sum(1 for _ in self.counted(messages))
        steps = self.writer.putting_batch(messages, outcome.append)
        for _ in range(count):
            next(steps)
        return steps

    def counted(self, messages: list[PendingMessage]) -> Steps[object]:
        """As many steps as a batch of them has before it is stored."""
        examined = yield from self.table.examining(
            "T", 0, [(message.properties, message.body) for message in messages]
        )
        assert examined is not None
        return (yield from self.store.preparing([messages[place] for place in examined.fresh]))

    def bodies(self) -> list[bytes]:
        return [
            message.body
            for message in split_records(bytes(self.store.log.read(0, self.store.max_log_offset) or b""))
        ]


def test_an_id_that_another_connection_stores_meanwhile_is_stored_once(tmp_path: Path) -> None:
    writing, outcome, meanwhile = Writing(tmp_path), list[WriteResult](), list[WriteResult]()
    steps = writing.begun(ids("a", "b", "c"), outcome)
    writing.writer.put(ids("b")[0], meanwhile.append)
    finish(steps)
    assert [put.code for put in (*meanwhile, *outcome)] == [0, 0]
    assert writing.bodies() == [b"b", b"a", b"c"]
    assert outcome[0].appended[1].log_offset == meanwhile[0].appended[0].log_offset


def test_numbers_that_another_connection_stores_meanwhile_are_stored_once(tmp_path: Path) -> None:
    writing, outcome, meanwhile = Writing(tmp_path), list[WriteResult](), list[WriteResult]()
    steps = writing.begun(numbers(0, 1, 2), outcome)
    finish(writing.writer.putting_batch(numbers(0, 1), meanwhile.append))
    finish(steps)
    assert [put.code for put in (*meanwhile, *outcome)] == [0, 0]
    assert writing.bodies() == [b"0", b"1", b"2"]


def test_what_was_found_in_tables_that_were_reset_counts_no_more(tmp_path: Path) -> None:
    writing, outcome = Writing(tmp_path), list[WriteResult]()
    first = list[WriteResult]()
    finish(writing.writer.putting_batch(ids("a"), first.append))
    steps = writing.begun(ids("a", "b"), outcome)
    writing.table.reset(b"other salt")
    for entry in first[0].appended:
        writing.table.on_message(entry)
    finish(steps)
    assert writing.bodies() == [b"a", b"b"]
