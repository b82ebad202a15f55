"""How transactional messages are stored on each of their ways, as RocketMQ 4.9.8 stores them. Pure.

A half message waits in RMQ_SYS_TRANS_HALF_TOPIC, where it is appended anew whenever its producer is asked. A message
in RMQ_SYS_TRANS_OP_HALF_TOPIC, whose body is the half's queue offset, says that the half there is settled.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.property_names import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    DELAY,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TRAN_MSG,
    TRAN_PREPARED_QUEUE_OFFSET,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_WAITS_SINCE,
    WAIT,
)
from rocketeer.model.topic import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.flags import TX_COMMIT, tx_state, with_tx_state
from rocketeer.record.layout import PendingMessage, StoredMessage, encode_record
from rocketeer.record.properties import (
    PROPERTIES_BYTES_MAX,
    QUEUE_DIGITS_MAX,
    decode_properties,
    encode_properties,
    find_property,
    rejoin_properties,
    target_of,
    whole_number,
)

QUEUE_ID: Final = 0
"""Half and op messages have one queue each."""
SETTLED_TAG: Final = "d"
LATER: Final = (DELAY, "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "__STARTDELIVERTIME")
"""A transactional message is never delayed as well: RocketMQ's client drops its level."""

COPY_BYTES: Final = 192
"""By so much the properties of a half's copies grow at most, and those of the questions about it."""
ASKED_BYTES: Final = len(f"\x02{WAIT}\x01false")
"""The same from a copy to the question about it."""

_OP_PROPERTIES: Final = encode_properties({TAGS: SETTLED_TAG, WAIT: "true"})


# --- on the way in ------------------------------------------------------------------------------


def is_half(message: PendingMessage) -> bool:
    """Whether the sender means it as a half message.

    A committed message keeps TRAN_MSG for good: one that is consumed again, or dies, is no half.
    """
    flag = find_property(message.properties, TRAN_MSG.encode())
    return (
        flag is not None
        and flag.lower() == b"true"
        and message.reconsume_times == 0
        and tx_state(message.sys_flag) != TX_COMMIT
    )


def make_half(message: PendingMessage) -> None:
    """Move a message to the half topic, remembering where it belongs."""
    properties = decode_properties(message.properties)
    for name in LATER:
        properties.pop(name, None)
    properties[REAL_TOPIC] = message.topic
    properties[REAL_QID] = str(message.queue_id)
    message.properties = rejoin_properties(properties)
    message.sys_flag = with_tx_state(message.sys_flag, 0)
    message.topic = TRANS_HALF_TOPIC
    message.queue_id = QUEUE_ID


# --- on the ways out ----------------------------------------------------------------------------


def topic_of(half: StoredMessage) -> str:
    """The topic it was sent to."""
    return half.properties_dict().get(REAL_TOPIC, half.topic)


def committed(half: StoredMessage, prepared_offset: LogOffset) -> PendingMessage:
    """The message as consumers get it; raises ValueError when it does not say where it belongs."""
    where = target_of(half.properties)
    if where is None:
        properties = half.properties_dict()
        raise ValueError(
            f"{REAL_TOPIC} is {properties.get(REAL_TOPIC)!r} and {REAL_QID} {properties.get(REAL_QID)!r}"
        )
    message = half.pending(*where, half.properties)
    message.sys_flag = with_tx_state(half.sys_flag, TX_COMMIT)
    message.prepared_offset = prepared_offset
    return message


def op_message(half_offset: QueueOffset, *, now_ms: int, store_host: bytes) -> PendingMessage:
    """The op message for the half at a queue offset."""
    return PendingMessage(
        topic=TRANS_OP_HALF_TOPIC,
        queue_id=QUEUE_ID,
        flag=0,
        sys_flag=0,
        born_ms=now_ms,
        born_host=store_host,
        body=str(half_offset).encode(),
        properties=_OP_PROPERTIES,
    )


def settled_offsets(body: bytes) -> list[QueueOffset]:
    """The queue offsets an op message speaks of; RocketMQ 5 puts several into one, with commas."""
    numbers = [whole_number(part) for part in body.split(b",")]
    return [QueueOffset(number) for number in numbers if number is not None]


def checked_copy(half: StoredMessage) -> PendingMessage:
    """The half message to be appended again after one more check of its producer."""
    properties = half.properties_dict()
    properties[TRANSACTION_CHECK_TIMES] = str(check_times(properties) + 1)
    return _copy(half, TRANS_HALF_TOPIC, rejoin_properties(properties))


def immune_copy(half: StoredMessage) -> PendingMessage:
    """The half that nobody may be asked after yet; it says where it stood first."""
    properties = half.properties_dict()
    properties[TRANSACTION_CHECK_TIMES] = str(check_times(properties) + 1)
    properties.setdefault(TRAN_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
    properties[WAIT] = "false"
    return _copy(half, TRANS_HALF_TOPIC, rejoin_properties(properties))


def rolled_copy(half: StoredMessage, *, counted: bool = False) -> PendingMessage:
    """The half as it is, further on: the log's or the queue's old end must not hold it.

    `counted` as if its producer had been asked: it does not wait for ever.
    """
    properties = half.properties_dict()
    properties[TRANSACTION_CHECK_TIMES] = str(check_times(properties) + counted)  # what marks a copy
    properties[TRANSACTION_WAITS_SINCE] = str(waits_since_ms(half, properties))
    return _copy(half, TRANS_HALF_TOPIC, rejoin_properties(properties))


def fits(copy: PendingMessage) -> bool:
    """Whether it can be stored and asked after; one that a broker before us took may have no room for our notes."""
    return len(copy.properties) + ASKED_BYTES <= PROPERTIES_BYTES_MAX


def resumed_copy(message: StoredMessage) -> PendingMessage:
    """A half (or one given up) that is to be asked after from the beginning."""
    properties = message.properties_dict()
    properties[TRANSACTION_CHECK_TIMES] = "0"
    properties.pop(TRANSACTION_WAITS_SINCE, None)
    return _copy(message, TRANS_HALF_TOPIC, rejoin_properties(properties))


def max_checks_copy(half: StoredMessage) -> PendingMessage:
    """The half message as it is stored in TRANS_CHECK_MAX_TIME_TOPIC, after too many checks."""
    return _copy(half, TRANS_CHECK_MAX_TIME_TOPIC, half.properties)


def question(half: StoredMessage, copy: DispatchEntry) -> bytes:
    """The body of CHECK_TRANSACTION_STATE: the message as its producer knows it, where the copy now lies."""
    properties = half.properties_dict()
    properties[TRANSACTION_CHECK_TIMES] = str(check_times(properties) + 1)
    properties[WAIT] = "false"
    real_queue = whole_number(properties.get(REAL_QID), QUEUE_DIGITS_MAX)
    asked = msgspec.structs.replace(
        half,
        topic=properties.get(REAL_TOPIC, half.topic),
        queue_id=half.queue_id if real_queue is None else real_queue,
        queue_offset=copy.queue_offset,
        log_offset=copy.log_offset,
        properties=rejoin_properties(properties),
    )
    return encode_record(asked)


def _copy(message: StoredMessage, topic: str, properties: bytes) -> PendingMessage:
    return message.pending(topic, QUEUE_ID, properties)


# --- what a half says of itself -----------------------------------------------------------------


def check_times(properties: dict[str, str]) -> int:
    """How often its producer was asked; what is no number counts as in RocketMQ."""
    return _number(properties.get(TRANSACTION_CHECK_TIMES, "0"))


def waits_since_ms(half: StoredMessage, properties: dict[str, str]) -> int:
    """When it was stored, or the one of which it is a copy that nobody was asked after."""
    since_ms = whole_number(properties.get(TRANSACTION_WAITS_SINCE))
    return half.store_ms if since_ms is None else min(since_ms, half.store_ms)


def immunity_ms(properties: dict[str, str], usual_ms: int) -> int | None:
    """How long after its birth nobody may be asked, if the sender chose it; no number means the usual time."""
    text = properties.get(CHECK_IMMUNITY_TIME_IN_SECONDS)
    if text is None:
        return None
    seconds = _number(text)
    return usual_ms if seconds == -1 else seconds * 1000


def _number(text: str) -> int:
    number = whole_number(text[1:] if text[:1] in ("-", "+") else text)
    return -1 if number is None else -number if text.startswith("-") else number


def identity(message: StoredMessage) -> int:
    """The same for all copies of one half, and for no other: which send it was, and when it was born where."""
    key = b"%b|%d|%b|%d|%b" % (
        (message.uniq_key or "").encode(),
        message.born_ms,
        message.born_host,
        message.body_crc,
        find_property(message.properties, PGROUP.encode()) or b"",
    )
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
