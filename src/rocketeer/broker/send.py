"""Sending without a frame: who may send what where, and what is stored for it.

The general path of SEND_MESSAGE and its batch; `rocketeer.engine` does the same for plain messages, byte for byte.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import msgspec

from rocketeer.broker.feature import Redirect
from rocketeer.broker.plain_properties import PlainParser
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.errors import BadBatch, InvalidTopic, RequestRefused, StoreRefused
from rocketeer.model.property_names import KEYS
from rocketeer.model.topic import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    Perm,
    TopicConfig,
    may_not_be_sent_to,
    validate_topic_name,
)
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.texts import FAQ
from rocketeer.record.batch import BatchItem, count_items, iter_batch
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import MULTI_TAGS, tx_state
from rocketeer.record.layout import TOPIC_BYTES_MAX, PendingMessage
from rocketeer.record.properties import decode_properties, rejoin_properties
from rocketeer.remoting.limits import over_limit
from rocketeer.steps import Steps

_WRITE: Final = int(Perm.WRITE)  # an IntFlag's own operators are slow


class SendHeader(Protocol):
    """What a send request says, whichever header it came in."""

    topic: str
    default_topic: str
    default_topic_queues: int
    queue_id: int
    sys_flag: int
    born_ms: int
    flag: int
    properties: str | None
    reconsume_times: int | None
    unit_mode: bool
    max_reconsume_times: int | None
    batch: bool


Admit = Callable[[SendHeader, str], TopicConfig]
"""The rules every message must keep: the topic's configuration, or RequestRefused."""


@dataclass(frozen=True)
class SendRules:
    """The part of the broker's configuration that sending depends on."""

    broker_ip: str
    broker_perm: int
    message_bytes_max: int
    batch_messages_max: int
    other_batch_messages_max: int
    """Most messages of a batch that comes here: one that cannot take the compiled way."""
    batch_keys_max: int
    """Most keys of all messages of a batch: the index writes them while others wait."""


class SendService:
    """Admits a message, makes its stored form, and writes it."""

    def __init__(
        self,
        rules: SendRules,
        *,
        topics: TopicTable,
        writer: Writer,
        plain: PlainParser,
        redirects: Sequence[Redirect],
    ) -> None:
        self._rules = rules
        self._topics = topics
        self._writer = writer
        self._plain = plain
        self._redirects = redirects

    def set_permission(self, broker_perm: int) -> None:
        """What the broker may be used for from now on."""
        self._rules = replace(self._rules, broker_perm=broker_perm)

    def send(
        self,
        header: SendHeader,
        body: bytes,
        born_host: bytes,
        remote: str,
        done: Callable[[int, WriteResult], None],
    ) -> None:
        """Store one message; `done(queue id, outcome)` is called once. Raises RequestRefused before storing."""
        config = self.admit(header, remote)
        message = self._pending(header, config, born_host)
        message.body = body
        plain = self._plain.parse(header.properties or "")
        if plain is not None and not header.topic.startswith(RETRY_PREFIX):
            message.properties, wait = plain
        else:
            properties, wait = self._plain.decode(header.properties or "")
            if header.topic.startswith(RETRY_PREFIX):
                for redirect in self._redirects:
                    redirect(message, properties, header.max_reconsume_times)
            message.properties = rejoin_properties(properties)
        queue_id = message.queue_id
        self._writer.put(message, lambda put: done(queue_id, put), wait=wait)

    def sending_batch(
        self,
        header: SendHeader,
        body: bytes,
        born_host: bytes,
        remote: str,
        done: Callable[[int, WriteResult], None],
    ) -> Steps[None]:
        """Store the messages of a batch next to each other in one queue; others are served between two steps."""
        config = self.admit(header, remote)
        topic_bytes = len(header.topic.encode())
        if topic_bytes > TOPIC_BYTES_MAX:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"message topic length too long {topic_bytes}")
        if header.topic.startswith(RETRY_PREFIX):
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {header.topic}"
            )
        if tx_state(header.sys_flag):
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "batch request does not support transactions")
        shared = (header.properties or "").strip("\x02")
        _, wait = self._plain.decode(shared)
        # Stored behind every message's own properties: those of the whole batch, and the cluster.
        pieces = ("", shared, self._plain.cluster_property) if shared else ("", self._plain.cluster_property)
        common = "\x02".join(pieces).encode("utf-8", "replace")
        model = self._pending(header, config, born_host)
        try:
            items = yield from self._splitting(body, common)
        except StoreRefused as refused:
            done(model.queue_id, self._writer.refused(refused))
            return
        messages = []
        for item in items:
            properties = item.properties.rstrip(b"\x02") + common
            messages.append(
                msgspec.structs.replace(model, flag=item.flag, body=item.body, properties=properties)
            )
            yield
        yield from self._writer.putting_batch(messages, lambda put: done(model.queue_id, put), wait=wait)

    def _splitting(self, body: bytes, common: bytes) -> Steps[list[BatchItem]]:
        """The messages of a batch. RequestRefused, or StoreRefused for one that would be too large in the store."""
        bytes_max, keys_max = self._rules.message_bytes_max, self._rules.batch_keys_max
        if len(body) > bytes_max:  # before it is split: items may be tiny, and many
            raise StoreRefused(StoreRefused.TOO_LARGE, f"a batch of {len(body)} bytes")
        if self._checked_count(body) * len(common) > bytes_max:  # each is stored with them
            text = f"a batch of many messages, each with the {len(common)} bytes of properties in common"
            raise StoreRefused(StoreRefused.TOO_LARGE, text)
        items = []
        try:
            for item in iter_batch(body):
                items.append(item)
                yield
        except BadBatch as error:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        if not items:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "a batch without messages")
        if (yield from _counting_keys(items, common, keys_max)) > keys_max:
            raise over_limit("keys in a batch", "limitBatchKeys", keys_max, ResponseCode.MESSAGE_ILLEGAL)
        return items

    def _checked_count(self, body: bytes) -> int:
        """How many messages there are; RequestRefused for more than a batch may have that comes this way."""
        rules, code = self._rules, ResponseCode.MESSAGE_ILLEGAL
        most, other = rules.batch_messages_max, rules.other_batch_messages_max
        count = count_items(body, max(most, other) + 1)
        if count > most:
            raise over_limit("messages in a batch", "limitBatchMessages", most, code)
        if count > other:
            raise over_limit(
                "messages in a batch with properties of a feature or keys or tags that are not UTF-8",
                "limitOtherBatchMessages", other, code,
            )  # fmt: skip
        return count

    def admit(self, header: SendHeader, remote: str) -> TopicConfig:
        """The topic's configuration, created if that is allowed; RequestRefused with RocketMQ's texts."""
        topic = header.topic
        rules = self._rules
        try:
            validate_topic_name(topic)
        except InvalidTopic as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        if may_not_be_sent_to(topic):
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden."
            )
        if not rules.broker_perm & _WRITE:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the broker[{rules.broker_ip}] sending message is forbidden"
            )
        config = self._topics.get(topic) or self._create(header, remote)
        if config is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{FAQ}"
            )
        if not config.perm & _WRITE and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden"
            )
        if header.queue_id >= max(config.read_queues, config.write_queues):
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"request queueId[{header.queue_id}] is illegal, {config} Producer: {remote}",
            )
        return config

    def _create(self, header: SendHeader, remote: str) -> TopicConfig | None:
        sys_flag = 1 if header.unit_mode else 0
        config = self._topics.create_from_default(
            header.topic, header.default_topic, remote, header.default_topic_queues, sys_flag
        )
        if config is None and header.topic.startswith(RETRY_PREFIX):
            config = self._topics.create_in_send_back(header.topic, 1, Perm.READ | Perm.WRITE)
        return config

    def _pending(self, header: SendHeader, config: TopicConfig, born_host: bytes) -> PendingMessage:
        """The message without body and properties."""
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(config.write_queues) if config.write_queues else 0
        return PendingMessage(
            topic=header.topic,
            queue_id=queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag | MULTI_TAGS if config.filter_type == "MULTI_TAG" else header.sys_flag,
            born_ms=header.born_ms,
            born_host=born_host,
            body=b"",
            properties=b"",
            reconsume_times=header.reconsume_times or 0,
        )


def stored_fields(id_start: str, queue_id: int, entries: Sequence[DispatchEntry]) -> dict[str, str]:
    """What the reply to a send says of the messages stored for it. A message id is its store's address (`id_start`),
    then its place in the log; `engine` writes the same for plain sends."""
    return {
        "msgId": ",".join([f"{id_start}{entry.log_offset:016X}" for entry in entries]),
        "queueId": str(queue_id),
        "queueOffset": str(entries[0].queue_offset),
    }


def _counting_keys(items: Sequence[BatchItem], common: bytes, enough: int) -> Steps[int]:
    """How many keys the messages of a batch have, their ids included; at least so many, if that is not `enough`."""
    # Spaces elsewhere than in keys count, too: at most too many.
    at_most = sum([item.properties.count(b" ") for item in items]) + len(items) * (2 + common.count(b" "))
    if at_most <= enough:
        return at_most
    shared = decode_properties(common).get(KEYS)
    if shared is not None:
        return len(items) * (2 + shared.count(" "))
    keys = 0
    for item in items:
        keys += 2 + decode_properties(item.properties).get(KEYS, "").count(" ")
        yield
    return keys
