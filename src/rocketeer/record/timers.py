"""The stored forms of a message that waits for a time of its own: waiting, rolled forward, delivered, recalled.

A message that waits is a record in TIMER_TOPIC with its time, topic and queue as properties. When it ends, by
delivery, by being stored again or by recall, the record that ends it names it: its prepared offset, which no
sender can set, is ~(log offset of the waiting record), below zero where every other record has 0 or more.
So whoever reads the log knows what still waits, and nothing is delivered twice.
"""

from typing import Final

from rocketeer.model.offsets import LogOffset
from rocketeer.model.property_names import (
    REAL_QID,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
)
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.record.layout import PendingMessage, StoredMessage
from rocketeer.record.properties import (
    PROPERTIES_BYTES_MAX,
    decode_properties,
    find_property,
    rejoin_properties,
    target_of,
    whole_number,
)

_OUT: Final = TIMER_OUT_MS.encode()


def ends(log_offset: LogOffset) -> int:
    """The prepared offset of the record that ends the waiting one at `log_offset`."""
    return ~log_offset


def ended_by(prepared_offset: int) -> LogOffset | None:
    """The log offset of the waiting record that a record with this prepared offset ends, if it ends one."""
    return LogOffset(~prepared_offset) if prepared_offset < 0 else None


def due_ms(properties: bytes) -> int:
    """When a message in TIMER_TOPIC is due; 0 for one that is no timer (the note of a recall)."""
    return whole_number(find_property(properties, _OUT)) or 0


def wait_until(message: PendingMessage, due: int) -> None:
    """Turn a message into a timer for TIMER_TOPIC: its own topic and queue become properties."""
    properties = decode_properties(message.properties)
    properties[TIMER_OUT_MS] = str(due)
    properties[REAL_TOPIC] = message.topic
    properties[REAL_QID] = str(message.queue_id)
    message.properties = rejoin_properties(properties)
    message.topic = TIMER_TOPIC
    message.queue_id = 0


def delivered(message: StoredMessage, now_ms: int) -> PendingMessage | None:
    """The message as it is delivered to its own topic; None if the timer does not say which that is."""
    where = target_of(message.properties)
    if where is None:
        return None
    due = _again(message)
    due.topic, due.queue_id = where
    note = f"\x02{TIMER_ENQUEUE_MS}\x01{message.store_ms}\x02{TIMER_DEQUEUE_MS}\x01{now_ms}".encode()
    # Only a note: it must not be what makes the properties too long.
    if len(message.properties) + len(note) <= PROPERTIES_BYTES_MAX:
        due.properties = message.properties + note
    return due


def rolled_forward(message: StoredMessage) -> PendingMessage:
    """A waiting message stored again, because the file it stands in will be deleted."""
    properties = message.properties_dict()
    times = whole_number(properties.get(TIMER_ROLL_TIMES)) or 0
    properties[TIMER_ROLL_TIMES] = str(times + 1)
    later = _again(message)
    encoded = rejoin_properties(properties)
    if len(encoded) <= PROPERTIES_BYTES_MAX:
        later.properties = encoded
    return later


def handed_over(message: StoredMessage, due: int) -> PendingMessage:
    """A message that waits in another way (for its delay level) made a timer: it has its target already."""
    properties = message.properties_dict()
    properties[TIMER_OUT_MS] = str(due)
    later = _again(message)
    later.topic = TIMER_TOPIC
    later.queue_id = 0
    later.properties = rejoin_properties(properties)
    return later


def recalled(message: StoredMessage, real_topic: str, message_id: str) -> PendingMessage:
    """The note that a waiting message is not to be delivered: what ends it, and is no timer itself."""
    note = _again(message)
    note.body = b"0"
    note.sys_flag = 0 if not message.sys_flag & 0x10 else 0x10  # of the old flags only the born host's length
    note.properties = rejoin_properties({TIMER_DEL_UNIQKEY: f"{real_topic}+{message_id}"})
    return note


def _again(message: StoredMessage) -> PendingMessage:
    pending = message.pending(message.topic, message.queue_id, message.properties)
    pending.prepared_offset = ends(message.log_offset)
    return pending
