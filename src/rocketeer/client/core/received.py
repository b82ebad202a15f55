"""A message that was pulled: what listeners and `poll` hand to the user. Nothing is decoded before it is asked for.

A pull brings up to 32 records one behind the other; splitting them reads two numbers of each. A listener that
only looks at the body never pays for properties, ids or hosts.
"""

from typing import Any, Final

import msgspec

from rocketeer.client.core.failure import Failure
from rocketeer.client.core.received_split import HEAD_START, split
from rocketeer.errors import BadRecord
from rocketeer.model import property_names as names
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import RETRY_PREFIX, without_namespace
from rocketeer.record.compression import decompress
from rocketeer.record.flags import COMPRESSED, HOSTS_V6
from rocketeer.record.hosts import host_text
from rocketeer.record.ids import offset_msg_id
from rocketeer.record.layout import FIELD_NAMES, HEADS, SYS_FLAG_AT, split_tail
from rocketeer.record.properties import decode_properties, find_property

_NOWHERE: Final = QueueOffset(-1)
_BODY_CRC: Final = FIELD_NAMES.index("body_crc")
_QUEUE_ID: Final = FIELD_NAMES.index("queue_id")
_FLAG: Final = FIELD_NAMES.index("flag")
_LOG_OFFSET: Final = FIELD_NAMES.index("log_offset")
_SYS_FLAG: Final = FIELD_NAMES.index("sys_flag")
_BORN_MS: Final = FIELD_NAMES.index("born_ms")
_BORN_HOST: Final = FIELD_NAMES.index("born_host")
_STORE_MS: Final = FIELD_NAMES.index("store_ms")
_STORE_HOST: Final = FIELD_NAMES.index("store_host")
_RECONSUME_TIMES: Final = FIELD_NAMES.index("reconsume_times")
_PREPARED_OFFSET: Final = FIELD_NAMES.index("prepared_offset")
_BODY_BYTES: Final = FIELD_NAMES.index("body_bytes")


class ReceivedMessage(msgspec.Struct, gc=False, eq=False):
    """A message as a consumer sees it; read-only.

    `topic` is the one it was sent to, also when it comes from the group's retry topic; `reconsume_times` tells
    how often it came before. `queue` and `queue_offset` are where it was read from.
    """

    _raw: bytes
    queue: MessageQueue
    """The queue it was read from; its topic may be the retry topic."""
    queue_offset: QueueOffset
    size: int
    """Bytes of the record: what flow control counts."""
    _namespace: str | None = None
    min_offset: QueueOffset = _NOWHERE
    """Where its queue began when it was pulled; -1: it did not come out of a pull."""
    max_offset: QueueOffset = _NOWHERE
    """Where the next message of its queue would have been then."""
    retried: int = 0
    """Tries in this process: an ordered queue gives it again, or sending it back failed."""
    started_s: float = 0.0
    """When its listener began, by the monotonic clock; 0 before."""
    _head: Any = None
    _tail: tuple[str, bytes] | None = None
    _properties: dict[str, str] | None = None
    _body: bytes | None = None

    # --- what most listeners want ------------------------------------------------------------

    @property
    def topic(self) -> str:
        topic = self.origin_topic
        return without_namespace(topic, self._namespace) if self._namespace else topic

    @property
    def body(self) -> bytes:
        """As the sender had it: decompressed when need be."""
        if self._body is None:
            head = self._fields()
            at = HEADS[(head[_SYS_FLAG] & HOSTS_V6) >> 4].size
            body = self._raw[at : at + head[_BODY_BYTES]]
            if not head[_SYS_FLAG] & COMPRESSED:
                return body  # not kept: the record is, and cutting it out again is cheap
            self._body = decompress(body, head[_SYS_FLAG])
        return self._body

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()

    @property
    def tags(self) -> str | None:
        """The tags as the sender gave them."""
        return self._property(b"TAGS")

    @property
    def keys(self) -> list[str]:
        """The keys of the message, one by one."""
        keys = self._property(b"KEYS")
        return keys.split(names.KEY_SEPARATOR) if keys else []

    @property
    def properties(self) -> dict[str, str]:
        """All of them, the user's and RocketMQ's own; MIN_OFFSET and MAX_OFFSET tell how far its queue reached."""
        if self._properties is None:
            self._properties = decode_properties(self._tail_parts()[1])
            if self.max_offset >= 0:
                self._properties[names.MIN_OFFSET] = str(self.min_offset)
                self._properties[names.MAX_OFFSET] = str(self.max_offset)
        return self._properties

    @property
    def lag(self) -> int:
        """How many messages its queue had behind it when it was pulled: a listener may skip what is too old."""
        return max(self.max_offset - 1 - self.queue_offset, 0)

    @property
    def message_id(self) -> str:
        """The id the sender gave (UNIQ_KEY), which stays the same through retries."""
        return self._property(b"UNIQ_KEY") or self.offset_message_id

    @property
    def reconsume_times(self) -> int:
        before: int = self._fields()[_RECONSUME_TIMES]
        return before + self.retried

    @property
    def failure(self) -> Failure | None:
        """Why the last try of a dead letter failed, if its client and its broker were Rocketeer's."""
        return Failure.found_in(self.properties)

    # --- where it was stored -----------------------------------------------------------------

    @property
    def stored_topic(self) -> str:
        """The topic of the record: `%RETRY%group` for a retry, with its namespace if there is one."""
        return self._tail_parts()[0]

    @property
    def stored_queue_id(self) -> int:
        """The queue id in the record."""
        value: int = self._fields()[_QUEUE_ID]
        return value

    @property
    def origin_topic(self) -> str:
        """The topic it was sent to, with its namespace if there is one."""
        topic = self.stored_topic
        return (self._property(b"RETRY_TOPIC") or topic) if topic.startswith(RETRY_PREFIX) else topic

    @property
    def broker_name(self) -> str:
        """The broker of `queue`."""
        return self.queue.broker_name

    @property
    def queue_id(self) -> int:
        """The id of `queue` within its broker."""
        return self.queue.queue_id

    @property
    def offset_message_id(self) -> str:
        """The id by which the broker finds the record."""
        head = self._fields()
        return offset_msg_id(head[_STORE_HOST], head[_LOG_OFFSET])

    @property
    def log_offset(self) -> LogOffset:
        """Where its record is in the broker's log."""
        value: LogOffset = self._fields()[_LOG_OFFSET]
        return value

    @property
    def flag(self) -> int:
        """The sender's number."""
        value: int = self._fields()[_FLAG]
        return value

    @property
    def sys_flag(self) -> int:
        """RocketMQ's own bits: compressed, part of a transaction, IPv6 ..."""
        value: int = self._fields()[_SYS_FLAG]
        return value

    @property
    def body_crc(self) -> int:
        """The checksum of the body as it was stored."""
        value: int = self._fields()[_BODY_CRC]
        return value

    @property
    def prepared_offset(self) -> LogOffset:
        """Log offset of the half message of a committed transaction; else 0."""
        value: LogOffset = self._fields()[_PREPARED_OFFSET]
        return value

    @property
    def born_ms(self) -> int:
        """When the sender made it, in milliseconds since 1970."""
        value: int = self._fields()[_BORN_MS]
        return value

    @property
    def born_host(self) -> str:
        """The sender's `host:port`."""
        return host_text(self._fields()[_BORN_HOST])

    @property
    def store_ms(self) -> int:
        """When the broker stored it, in milliseconds since 1970."""
        value: int = self._fields()[_STORE_MS]
        return value

    @property
    def store_host(self) -> str:
        """The broker's `host:port`."""
        return host_text(self._fields()[_STORE_HOST])

    def __repr__(self) -> str:
        return (
            f"ReceivedMessage(topic={self.topic!r}, tags={self.tags!r}, keys={self.keys!r}, "
            f"queue={self.broker_name}:{self.queue_id}, offset={self.queue_offset}, id={self.message_id})"
        )

    # --- decoding, once and only if asked for ------------------------------------------------

    def _fields(self) -> tuple[Any, ...]:
        """The head's fields, in the order of `FIELD_NAMES`."""
        if self._head is None:
            flag = int.from_bytes(self._raw[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big")
            self._head = HEADS[(flag & HOSTS_V6) >> 4].unpack_from(self._raw)
        head: tuple[Any, ...] = self._head
        return head

    def _tail_parts(self) -> tuple[str, bytes]:
        if self._tail is None:
            head = self._fields()
            at = HEADS[(head[_SYS_FLAG] & HOSTS_V6) >> 4].size + head[_BODY_BYTES]
            self._tail = split_tail(self._raw[at:], 0)
        return self._tail

    def _property(self, name: bytes) -> str | None:
        if self._properties is not None:
            return self._properties.get(name.decode())
        value = find_property(self._tail_parts()[1], name)
        return None if value is None else value.decode("utf-8", "replace")


def split_messages(
    body: bytes,
    queue: MessageQueue,
    *,
    tags: frozenset[str] = frozenset(),
    namespace: str | None = None,
    min_offset: QueueOffset = _NOWHERE,
    max_offset: QueueOffset = _NOWHERE,
) -> list[ReceivedMessage]:
    """The messages of a pull reply; of those with other tags than `tags`, none (brokers compare hashes only)."""
    found, at = split(body, ReceivedMessage, queue, namespace, min_offset, max_offset)
    left = len(body) - at
    if left >= HEAD_START.size:
        size, magic, _ = HEAD_START.unpack_from(body, at)
        raise BadRecord(at=at, reason=f"magic {magic & 0xFFFFFFFF:#x}, size {size}, {left} bytes left")
    if left:
        raise BadRecord(at=at, reason=f"{left} bytes are left for a record")
    return [message for message in found if message.tags in tags] if tags else found
