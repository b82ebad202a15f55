"""Message to request: ids, properties, namespace, compression and limits; a list becomes one batch body.

What comes out (`Outgoing`) is the same for every queue and attempt; `plans.send` adds the rest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from rocketeer.client.core.batch_items import check_properties, pack_items
from rocketeer.client.core.config import ProducerConfig
from rocketeer.errors import InvalidTopic, MessageTooLarge
from rocketeer.model import property_names as names
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.topic import RETRY_PREFIX, may_not_be_sent_to
from rocketeer.record.batch import ITEM_BYTES_MIN, BatchItem, encode_batch
from rocketeer.record.compression import compress
from rocketeer.record.flags import TX_PREPARED, Compression
from rocketeer.record.ids import UniqKeys
from rocketeer.record.properties import PROPERTIES_BYTES_MAX, encode_properties, join_properties

_REPLY: Final = "reply"
_SPARE_PROPERTIES_BYTES: Final = 128
"""UNIQ_KEY and INSTANCE_ID join a message's properties when it is sent; the splitter leaves them room."""


class Outgoing(msgspec.Struct, gc=False):
    """One request's worth of messages, ready for any queue; `topic` is the full one, in its namespace."""

    topic: str
    body: bytes
    """As it travels: compressed if that pays, a batch's messages one behind the other."""
    properties: dict[str, str]
    """The user's and RocketMQ's own; of a batch those in common."""
    message_ids: str
    """The ids given to the messages, with commas between them."""
    flag: int = 0
    """The message's number."""
    sys_flag: int = 0
    """RocketMQ's own bits: compressed, part of a transaction ..."""
    batch: bool = False
    """Whether it is a batch."""
    reply: bool = False
    """Whether it answers a `request`."""
    reconsume_times: int = 0
    """How often a message that is sent back came before."""
    max_reconsume_times: int | None = None
    """After so many times it goes to the dead letters."""
    parts: tuple["Outgoing", ...] = ()
    """The messages of a batch one by one, for a producer with hooks; `body` is made anew after these have run."""

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body)


class Encoder:
    """One per producer; threads may share it."""

    def __init__(self, config: ProducerConfig, uniq_keys: UniqKeys) -> None:
        self._config = config
        self._uniq_keys = uniq_keys

    def encode(self, message: Message | Sequence[Message]) -> Outgoing:
        """The request for a message, or for a list as one batch; raises for what no broker would take."""
        if isinstance(message, Message):
            return self.raw(message.topic, message.body, message.all_properties(), message.flag)
        if isinstance(message, Iterable) and not isinstance(message, str | bytes | Mapping):
            return self._batch(list(message))
        raise InvalidMessage(f"a Message or a list of them can be sent, not {type(message).__name__}")

    def check(self, message: Message) -> None:
        """Raise for what no broker would take, as far as it shows without encoding it."""
        self._check(message.topic, message.body)

    def joined(self, messages: list[Message], *, apart: bool = False) -> Outgoing:
        """One request for messages that were sent one by one: stored as if they had come so.

        They were looked at one by one, too, but for the topic they share. `apart`: with each one's own request in
        `parts`.
        """
        if len(messages) == 1:
            return self.encode(messages[0])
        first = messages[0]
        self._check(first.topic, first.body)
        if apart:
            parts = tuple(self.encode(message) for message in messages)
            body = joined_body(parts)
            identities = [part.message_ids for part in parts]
        else:
            parts = ()
            identities = self._uniq_keys.take(len(messages))
            body = pack_items(messages, identities, self._config.namespace, False)
        outgoing = self._joined(first, body, identities)
        if first.wait_stored:
            outgoing.properties = {}  # the default need not be said, and would be stored with each message
        outgoing.parts = parts
        return outgoing

    def raw(self, topic: str, body: bytes, properties: dict[str, str], flag: int = 0) -> Outgoing:
        """The request for a message given as parts; reserved properties pass (retries, transactions)."""
        self._check(topic, body)
        config = self._config
        identity = properties.get(names.UNIQ_KEY)
        if identity is None:
            identity = properties[names.UNIQ_KEY] = self._uniq_keys.next()
        if config.namespace:
            properties[names.INSTANCE_ID] = config.namespace
        sys_flag = 0
        if len(body) >= config.compress_over_bytes:
            body = compress(body, Compression.ZLIB, config.compress_level)
            sys_flag = Compression.ZLIB.sys_flag
        if properties.get(names.TRAN_MSG, "").lower() == "true":
            sys_flag |= TX_PREPARED
        outgoing = Outgoing(
            config.full_topic(topic) if config.namespace else topic,
            body,
            properties,
            identity,
            flag,
            sys_flag,
            reply=properties.get(names.MSG_TYPE) == _REPLY,
        )
        if outgoing.topic.startswith(RETRY_PREFIX):
            # For retry topics these two travel in the header, where the broker looks for them.
            outgoing.reconsume_times = int(properties.pop(names.RECONSUME_TIME, 0))
            limit = properties.pop(names.MAX_RECONSUME_TIMES, None)
            outgoing.max_reconsume_times = None if limit is None else int(limit)
        return outgoing

    def _batch(self, messages: list[Message]) -> Outgoing:
        """A batch of the user's making, whose messages keep WAIT, as those of Java's batches do."""
        check_batch(messages)
        for message in messages:
            self._check(message.topic, message.body)
        identities = self._uniq_keys.take(len(messages))
        body = pack_items(messages, identities, self._config.namespace, True)
        return self._joined(messages[0], body, identities)

    def _joined(self, first: Message, body: bytes, identities: list[str]) -> Outgoing:
        config = self._config
        if len(body) > config.message_bytes_max:
            advice = "send it in parts, with split_batch(messages)"
            raise MessageTooLarge("batch", size=len(body), limit=config.message_bytes_max, advice=advice)
        wait = {names.WAIT: "true" if first.wait_stored else "false"}
        topic = config.full_topic(first.topic)
        return Outgoing(topic, body, wait, ",".join(identities), batch=True)

    def _check(self, topic: str, body: bytes) -> None:
        limit = self._config.message_bytes_max
        if len(body) > limit:
            raise MessageTooLarge(f"message body for topic {topic!r}", size=len(body), limit=limit)
        if not body:
            raise InvalidMessage(f"message for topic {topic!r} has an empty body: brokers take none")
        if may_not_be_sent_to(topic):
            raise InvalidTopic(f"Sending message to topic[{topic}] is forbidden.")


def joined_body(parts: Iterable[Outgoing]) -> bytes:
    """The body of one request for messages that were encoded one by one."""
    items: list[BatchItem] = []
    for part in parts:
        properties = encode_properties(
            {name: value for name, value in part.properties.items() if name != names.WAIT}
        )
        check_properties(len(properties))
        items.append(BatchItem(part.flag, part.body, properties))
    return encode_batch(items)


def body_bytes(message: Message | Sequence[Message]) -> int:
    """About how much of the limit of bytes in flight a send takes."""
    if type(message) is Message:
        return len(message.body)
    return (
        sum(len(each.body) for each in message if isinstance(each, Message))
        if isinstance(message, Sequence)
        else 0
    )


def properties_text(properties: Mapping[str, str]) -> str:
    """The properties as send headers carry them; raises MessageTooLarge."""
    text = join_properties(properties)
    if len(text) > PROPERTIES_BYTES_MAX // 4:  # no character takes more than 4 bytes
        check_properties(len(text.encode("utf-8", "replace")))
    return text


def check_batch(messages: Sequence[Message]) -> None:
    """Raise for a list that cannot be one batch: one topic, one way of waiting, no delay."""
    if not messages:
        raise InvalidMessage("an empty list is no batch")
    first = messages[0]
    for message in messages:
        if not isinstance(message, Message):
            raise InvalidMessage(f"a batch holds Messages, not {type(message).__name__}")
        if message.topic != first.topic:
            raise InvalidMessage(f"a batch has one topic, not {first.topic!r} and {message.topic!r}")
        if message.wait_stored != first.wait_stored:
            raise InvalidMessage("the messages of a batch have the same wait_stored")
        if message.delay_level:
            raise InvalidMessage("a message with a delay_level cannot be in a batch: send it by itself")
        if message.is_timed:
            raise InvalidMessage(
                "a message with deliver_at, delay or __STARTDELIVERTIME cannot be in a batch: send it by itself"
            )
        if message.topic.startswith(RETRY_PREFIX):
            raise InvalidMessage(f"retry topic {message.topic!r} takes no batches")


def split_batch(messages: Iterable[Message], *, bytes_max: int = 4 << 20) -> Iterator[list[Message]]:
    """Cut a long list into batches that each fit into one request, in order.

    for part in split_batch(messages):
        producer.send(part)
    """
    part: list[Message] = []
    part_bytes = 0
    for message in messages:
        properties = encode_properties(message.all_properties())
        size = ITEM_BYTES_MIN + len(message.body) + len(properties) + _SPARE_PROPERTIES_BYTES
        if size > bytes_max:
            raise MessageTooLarge(f"message for topic {message.topic!r}", size=size, limit=bytes_max)
        if part and part_bytes + size > bytes_max:
            yield part
            part = []
            part_bytes = 0
        part.append(message)
        part_bytes += size
    if part:
        yield part
