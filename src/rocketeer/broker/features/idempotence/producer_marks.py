"""What an idempotent producer writes on its messages: who it is, and the message's number or id."""

from typing import Final, NamedTuple

from rocketeer.errors import RequestRefused
from rocketeer.model.property_names import DEDUP_ID, PRODUCER_ID, PRODUCER_SEQ, REAL_QID, REAL_TOPIC
from rocketeer.model.topic import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
)
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.flags import TX_MASK
from rocketeer.record.layout import StoredMessage
from rocketeer.record.properties import QUEUE_DIGITS_MAX, find_property, whole_number

PRODUCER_CHARS_MAX: Final = 128
DEDUP_CHARS_MAX: Final = 256
SIGN: Final = f"{PRODUCER_ID}\x01".encode()
"""Properties (or a whole record) without these bytes have no mark."""

_PRODUCER: Final = PRODUCER_ID.encode()
_SEQUENCE: Final = PRODUCER_SEQ.encode()
_DEDUP: Final = DEDUP_ID.encode()
_REAL_TOPIC: Final = REAL_TOPIC.encode()
_REAL_QID: Final = REAL_QID.encode()
_COMMITTED: Final = 0x8
_ELSEWHERE: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC})
"""Messages in these topics were sent to another one: the broker wrote down which. Elsewhere a client may have."""


class ProducerMark(NamedTuple):
    """Either a number in the producer's sequence to the queue, or an id of its own: the other is None."""

    producer: str
    sequence: int | None
    dedup_id: str | None


def read_mark(properties: bytes) -> ProducerMark | None:
    """None without a whole mark (PRODUCER_ID alone is any property); RequestRefused for one that cannot be."""
    if SIGN not in properties:
        return None
    producer = find_property(properties, _PRODUCER)
    sequence = find_property(properties, _SEQUENCE)
    dedup_id = find_property(properties, _DEDUP)
    if producer is None or (sequence is None and dedup_id is None):
        return None
    who = producer.decode("utf-8", "replace")
    if len(who) > PRODUCER_CHARS_MAX:
        raise _bad(f"{PRODUCER_ID} has {len(who)} characters, at most {PRODUCER_CHARS_MAX} are taken")
    if sequence is not None and dedup_id is not None:
        raise _bad(f"producer {who!r} gave both {PRODUCER_SEQ} and {DEDUP_ID}: a message has one of them")
    if sequence is not None:
        number = whole_number(sequence)
        if number is None:
            text = sequence[:40].decode("utf-8", "replace")
            raise _bad(f"producer {who!r} gave {PRODUCER_SEQ} {text!r}: a number from 0 on is expected")
        return ProducerMark(who, number, None)
    assert dedup_id is not None
    text = dedup_id.decode("utf-8", "replace")
    if len(text) > DEDUP_CHARS_MAX:
        raise _bad(
            f"producer {who!r} gave a {DEDUP_ID} of {len(text)} characters, at most {DEDUP_CHARS_MAX} are taken"
        )
    return ProducerMark(who, None, text)


class ProducerMessage(NamedTuple):
    """A stored message as its producer sent it."""

    mark: ProducerMark
    topic: str
    queue_id: int
    put_back: bool
    """It looks like one that the broker stored again: a delay that was over, a transaction that was committed."""


def read_sent(message: StoredMessage) -> ProducerMessage | None:
    """None for what no idempotent producer sent (or what it sent for somebody's next try, see `counts`)."""
    try:
        mark = read_mark(message.properties)
    except RequestRefused:  # stored by a broker that does not know marks
        return None
    if mark is None:
        return None
    topic, queue_id = message.topic, message.queue_id
    real = find_property(message.properties, _REAL_TOPIC)
    put_back = message.sys_flag & TX_MASK == _COMMITTED
    if real is not None:
        real_topic = real.decode("utf-8", "replace")
        put_back = put_back or real_topic == topic
        queue = whole_number(find_property(message.properties, _REAL_QID), QUEUE_DIGITS_MAX)
        if topic in _ELSEWHERE and queue is not None:
            topic, queue_id = real_topic, queue
    return ProducerMessage(mark, topic, queue_id, put_back) if counts(topic) else None


def counts(topic: str) -> bool:
    """False for retry and dead-letter topics: their copies carry the producer's mark, but the producer did not send
    them."""
    return not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _bad(remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.MESSAGE_ILLEGAL, remark)
