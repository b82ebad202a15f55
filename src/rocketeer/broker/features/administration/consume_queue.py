"""The entries of a consume queue as they are stored, and what a group's filter says of each (321)."""

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.pull import accepts_of
from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.subscription import TAG, Subscription
from rocketeer.protocol.bodies.consume_queue import QueueEntries, QueueEntryView, encode_queue_entries
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.topics import QueryConsumeQueueHeader
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.router import Handler
from rocketeer.remoting.slices import run_sliced
from rocketeer.steps import Steps
from rocketeer.store.consume_queue_ext import ExtUnit, is_address
from rocketeer.store.queue_entry import ENTRY, ENTRY_BYTES
from rocketeer.store.read_queue import ReadQueue

REMARK: Final = "not set any response code"
"""What RocketMQ says with its answer; tools print it."""
COUNT_MAX: Final = 2_000
"""Entries of one answer: each becomes some 200 bytes of JSON."""
ENTRIES_AT_ONCE: Final = 16
_BITS_A_LINE: Final = 64

Matches = Callable[[int, ExtUnit | None], bool]


class ConsumeQueues(Protocol):
    """The queues as readers see them: in a group they end at what is confirmed."""

    def get(self, topic: str, queue_id: int) -> ReadQueue | None: ...


class GroupFilters(Protocol):
    """What is asked of the table of groups that filter by an expression."""

    def text_of(self, topic: str, group: str) -> str | None: ...

    def may_match(self, topic: str, group: str, unit: ExtUnit) -> bool: ...


def consume_queue_handlers(
    queues: ConsumeQueues, clients: ClientTable[Connection], filters: GroupFilters
) -> dict[int, Handler]:
    def query(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return run_sliced(querying(command))

    def querying(command: Command) -> Steps[Command]:
        header = decode_header(QueryConsumeQueueHeader, command.ext)
        queue = queues.get(header.topic, header.queue_id)
        if queue is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
        view = _view_of(header.topic, header.consumer_group, clients, filters)
        raw = queue.read(QueueOffset(header.index), min(max(header.count, 0), COUNT_MAX))
        if not queue.min_offset <= header.index < queue.max_offset:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!",
            )
        low, high = queue.min_offset, queue.max_offset
        entries: list[QueueEntryView] = []
        for log_offset, size, code in ENTRY.iter_unpack(raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES]):
            entries.append(_entry(queue, log_offset, size, code, view.matches))
            if len(entries) % ENTRIES_AT_ONCE == 0:
                yield
        told = QueueEntries(low, high, tuple(entries), view.filter_text, view.subscription)
        return reply(command, remark=REMARK, body=encode_queue_entries(told))

    return {RequestCode.QUERY_CONSUME_QUEUE: query}


class _GroupView(NamedTuple):
    """How a group sees the topic: what is told of its filter, and what the filter says of an entry."""

    filter_text: str | None = None
    subscription: Subscription | None = None
    matches: Matches | None = None


def _view_of(
    topic: str, group: str | None, clients: ClientTable[Connection], filters: GroupFilters
) -> _GroupView:
    if group is None:
        return _GroupView()
    subscription = clients.subscription(group, topic)
    if subscription is None:
        return _GroupView(f"{group}@{topic} is not online!")
    text = filters.text_of(topic, group) or "null"
    if subscription.kind == TAG:
        accepts = accepts_of(subscription.expression)
        return _GroupView(text, subscription, lambda code, unit: accepts is None or accepts(code))
    # Without bits nobody has looked at the message yet: it may match.
    return _GroupView(
        text, subscription, lambda code, unit: unit is None or filters.may_match(topic, group, unit)
    )


def _entry(
    queue: ReadQueue, log_offset: LogOffset, size: int, code: int, matches: Matches | None
) -> QueueEntryView:
    unit = queue.unit(code) if is_address(code) else None
    tag_code = code if unit is None else unit.tag_code
    return QueueEntryView(
        log_offset,
        size,
        code,
        matches is not None and matches(tag_code, unit),
        None if unit is None else _unit_text(unit),
        None if unit is None or not unit.filter_bits else _bits_text(unit.filter_bits),
    )


def _unit_text(unit: ExtUnit) -> str:
    told: dict[str, object] = {"msgStoreTime": unit.store_ms, "size": unit.size, "tagsCode": unit.tag_code}
    if unit.filter_bits:
        told = {"filterBitMap": b64encode(unit.filter_bits).decode(), **told}
    return json.dumps(told, separators=(",", ":"))


def _bits_text(data: bytes) -> str:
    """The highest bit first, 64 of them a line, the first line being the shorter one."""
    digits = format(int.from_bytes(data, "little"), f"0{len(data) * 8}b")
    first = len(digits) % _BITS_A_LINE
    starts = [0, *range(first, len(digits), _BITS_A_LINE)] if first else range(0, len(digits), _BITS_A_LINE)
    ends = [*starts[1:], len(digits)]
    return "".join(f"{digits[start:end]}\n" for start, end in zip(starts, ends, strict=True))
