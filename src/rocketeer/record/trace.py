"""The body of a trace message: what happened to messages, one line a time, as RocketMQ's clients write it. Pure.

Fields are separated by \\x01, lines end with \\x02. By kind:

    Pub            time region group topic id tags keys storeHost bodyBytes costMs type offsetId success [clientHost]
    SubBefore      time region group requestId id retries keys
    SubAfter       requestId id costMs success keys [code [time group]]
    EndTransaction time region group topic id tags keys storeHost type transactionId state fromCheck

What the writer did not know stands as `null`. The fields in brackets came with later versions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

FIELD: Final = "\x01"
LINE: Final = "\x02"
NULL: Final = "null"
KEY_SEPARATOR: Final = " "


class TraceKind(StrEnum):
    """What happened: sent, about to be consumed, consumed, a transaction ended."""

    PUB = "Pub"
    SUB_BEFORE = "SubBefore"
    SUB_AFTER = "SubAfter"
    END_TRANSACTION = "EndTransaction"


class MessageKind(IntEnum):
    """In RocketMQ's order, which the lines hold."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3


class ConsumeCode(IntEnum):
    """How a listener ended, in RocketMQ's order."""

    SUCCESS = 0
    """The listener consumed the messages."""
    TIME_OUT = 1
    """The listener took longer than `consume_timeout_s`."""
    EXCEPTION = 2
    """The listener raised."""
    RETURNED_NULL = 3
    """The listener returned nothing (clients in other languages)."""
    FAILED = 4
    """The listener asked for the messages again."""


_YEAR_10000_MS: Final = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One line; what a kind does not have keeps its default."""

    kind: TraceKind
    message_id: str
    time_ms: int = 0
    region: str | None = None
    group: str | None = None
    topic: str | None = None
    tags: str | None = None
    keys: str | None = None
    store_host: str | None = None
    body_bytes: int = 0
    cost_ms: int = 0
    message_kind: int = MessageKind.NORMAL
    offset_message_id: str | None = None
    success: bool = True
    client_host: str | None = None
    request_id: str | None = None
    retries: int = 0
    code: int = ConsumeCode.SUCCESS
    transaction_id: str | None = None
    transaction_state: str | None = None
    from_check: bool = False

    @property
    def search_keys(self) -> list[str]:
        """By which the line can be found: the message's id and its keys."""
        return [self.message_id, *(self.keys or "").split()]


def encode_event(event: TraceEvent) -> str:
    """The event's line, with its end."""
    e = event
    values: Sequence[object]
    match e.kind:
        case TraceKind.PUB:
            values = (
                e.time_ms, e.region, e.group, e.topic, e.message_id, e.tags, e.keys, e.store_host, e.body_bytes,
                e.cost_ms, int(e.message_kind), e.offset_message_id, e.success,
            )  # fmt: skip
        case TraceKind.SUB_BEFORE:
            values = (e.time_ms, e.region, e.group, e.request_id, e.message_id, e.retries, e.keys)
        case TraceKind.SUB_AFTER:
            values = (
                e.request_id, e.message_id, e.cost_ms, e.success, e.keys, int(e.code), e.time_ms, e.group,
            )  # fmt: skip
        case TraceKind.END_TRANSACTION:
            values = (
                e.time_ms, e.region, e.group, e.topic, e.message_id, e.tags, e.keys, e.store_host,
                int(e.message_kind), e.transaction_id, e.transaction_state, e.from_check,
            )  # fmt: skip
    return FIELD.join([e.kind, *(_text(value) for value in values)]) + LINE


def _text(value: object) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def decode_trace(body: bytes) -> list[TraceEvent]:
    """The events of a trace message's body; lines of other kinds and lines that are cut are left out."""
    events: list[TraceEvent] = []
    for line in body.decode("utf-8", "replace").split(LINE):
        kind, *values = line.split(FIELD)
        decode = _DECODERS.get(kind)
        if decode is None:
            continue
        try:
            events.append(decode(values))
        except (IndexError, ValueError):
            continue
    return events


def search_keys(events: Iterable[TraceEvent]) -> str:
    """The KEYS property of a trace message: everything its lines can be found by, each once."""
    return KEY_SEPARATOR.join(dict.fromkeys(key for event in events for key in event.search_keys))


def _known(text: str) -> str | None:
    return None if text == NULL else text


def _number(text: str) -> int:
    """A number of 32 bits; ValueError for anything else: whoever reads events keeps them as such."""
    return _within(text, -(1 << 31), (1 << 31) - 1)


def _time_ms(text: str) -> int:
    return _within(text, 0, _YEAR_10000_MS - 1)


def _within(text: str, low: int, high: int) -> int:
    number = int(text) if len(text) <= 20 else high + 1
    if not low <= number <= high:
        raise ValueError(f"{number} is not between {low} and {high}")
    return number


def _of_producer(kind: TraceKind, v: Sequence[str], **more: Any) -> TraceEvent:
    """What the lines of producers begin with alike."""
    return TraceEvent(
        kind,
        v[4],
        time_ms=_time_ms(v[0]),
        region=_known(v[1]),
        group=_known(v[2]),
        topic=_known(v[3]),
        tags=_known(v[5]),
        keys=_known(v[6]),
        store_host=_known(v[7]),
        **more,
    )


def _pub(v: Sequence[str]) -> TraceEvent:
    success = v[12] if len(v) > 12 else v[11] if len(v) == 12 else "true"
    return _of_producer(
        TraceKind.PUB,
        v,
        body_bytes=_number(v[8]),
        cost_ms=_number(v[9]),
        message_kind=_number(v[10]),
        offset_message_id=_known(v[11]) if len(v) > 12 else None,
        success=success == "true",
        client_host=v[13] if len(v) > 13 else None,
    )


def _sub_before(v: Sequence[str]) -> TraceEvent:
    return TraceEvent(
        TraceKind.SUB_BEFORE,
        v[4],
        time_ms=_time_ms(v[0]),
        region=_known(v[1]),
        group=_known(v[2]),
        request_id=v[3],
        retries=_number(v[5]),
        keys=_known(v[6]),
    )


def _sub_after(v: Sequence[str]) -> TraceEvent:
    return TraceEvent(
        TraceKind.SUB_AFTER,
        v[1],
        request_id=v[0],
        cost_ms=_number(v[2]),
        success=v[3] == "true",
        keys=_known(v[4]),
        code=_number(v[5]) if len(v) > 5 else ConsumeCode.SUCCESS,
        time_ms=_time_ms(v[6]) if len(v) > 7 else 0,
        group=_known(v[7]) if len(v) > 7 else None,
    )


def _end_transaction(v: Sequence[str]) -> TraceEvent:
    return _of_producer(
        TraceKind.END_TRANSACTION,
        v,
        message_kind=_number(v[8]),
        transaction_id=_known(v[9]),
        transaction_state=_known(v[10]),
        from_check=v[11] == "true",
    )


_DECODERS: Final[dict[str, Callable[[Sequence[str]], TraceEvent]]] = {
    TraceKind.PUB: _pub,
    TraceKind.SUB_BEFORE: _sub_before,
    TraceKind.SUB_AFTER: _sub_after,
    TraceKind.END_TRANSACTION: _end_transaction,
}
