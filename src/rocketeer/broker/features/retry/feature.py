"""CONSUMER_SEND_MSG_BACK: a message its consumer could not handle waits in the group's retry topic, then tries end.

The n-th try comes after delay level 3 + n (or the level the client chose); past the limit the message goes to
the group's dead letters. Our clients may also name the pause in milliseconds, which a timer keeps, and say why the
last try failed, which a dead letter carries. What went back once is not stored again when it is asked for again
(`sent_back`).
"""

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from rocketeer.broker.feature import ConfigChange, Feature, Replay
from rocketeer.broker.features.retry.sent_back import SentBack
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer, WriteResult, code_without_slaves
from rocketeer.errors import RequestRefused
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.offsets import LogOffset
from rocketeer.model.property_names import (
    DELAY,
    FAILURE_CLIENT,
    FAILURE_REASON,
    FAILURE_TRACE,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    WAIT,
)
from rocketeer.model.topic import DLQ_PREFIX, RETRY_PREFIX, Perm, TopicConfig, dlq_topic, retry_topic
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.send import ConsumerSendMsgBackHeader
from rocketeer.protocol.texts import FAQ
from rocketeer.record.layout import TOPIC_BYTES_MAX, PendingMessage, StoredMessage
from rocketeer.record.properties import PROPERTIES_BYTES_MAX, rejoin_properties
from rocketeer.record.skip import SkipFilter
from rocketeer.remoting.connection import Connection

FIRST_RETRY_LEVEL = 3
DLQ_QUEUES = 1
READ_WRITE = Perm.READ | Perm.WRITE
FAILURE_CHARS_MAX: Final = 2048
"""How much is kept of each text about a failure."""
TRIES_MAX: Final = (1 << 31) - 1
"""As records count them; a sender may say that so many were made."""
NO_SEPARATORS: Final = {1: " ", 2: " "}
"""What stands between properties, and between name and value."""
NO_FAILURE: Final[Mapping[str, str]] = MappingProxyType({})
TIMER_MARKS: Final = frozenset(
    {
        TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, TIMER_OUT_MS, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS,
        TIMER_ROLL_TIMES, START_DELIVER_TIME,
    }
)  # fmt: skip
NOT_ON_DISK = "the message is stored for its next try, but the disk does not have it yet"


class ConsumedMessages(Protocol):
    """What sending back asks of the store."""

    def named_at(self, log_offset: LogOffset) -> StoredMessage | None: ...


class SendBack:
    """Stores the failed message again, for later or for good."""

    def __init__(
        self,
        *,
        topics: TopicTable,
        groups: ConsumerGroupTable,
        store: ConsumedMessages,
        writer: Writer,
        sent: SentBack,
        broker_ip: str,
        broker_perm: int,
        counters: Counters,
        timer_ms_max: int,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._store = store
        self._writer = writer
        self.sent = sent
        self._counters = counters
        self._broker_ip = broker_ip
        self._broker_perm = broker_perm
        self._timer_ms_max = timer_ms_max
        """The longest pause a timer keeps; 0 without timers."""

    def set_permission(self, broker_perm: int) -> None:
        """What the broker may be used for from now on."""
        self._broker_perm = broker_perm

    def handle(self, command: Command, connection: Connection) -> Command | None:
        header = decode_header(ConsumerSendMsgBackHeader, command.ext)
        group = self._group(header.group)
        if not self._broker_perm & Perm.WRITE:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] sending message is forbidden"
            )
        if group.retry_queues <= 0:
            return reply(command)
        sys_flag = 2 if header.unit_mode else 0
        target = self._topics.create_in_send_back(
            retry_topic(header.group), group.retry_queues, READ_WRITE, sys_flag
        )
        if len(target.name.encode()) > TOPIC_BYTES_MAX:  # told now, not when the delay is over
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "MESSAGE_ILLEGAL")
        if not target.perm & Perm.WRITE:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the topic[{target.name}] sending message is forbidden"
            )
        message = self._store.named_at(LogOffset(header.offset))
        if message is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
        level = header.delay_level
        dead = level < 0 or message.reconsume_times >= _tries_max(group, header.max_reconsume_times)

        def answer(code: int, remark: str | None = None) -> None:
            if not command.is_oneway:
                code = code_without_slaves(code)
                if code != ResponseCode.SUCCESS:
                    code, remark = ResponseCode.SYSTEM_ERROR, remark or NOT_ON_DISK
                connection.send(reply(command, code, remark))

        copy_end = self.sent.copy_end(header.group, message, dead=dead)
        if copy_end is not None:  # it went back before, but the disk may not have it yet
            self._writer.when_durable(copy_end, answer)
            return None
        if dead:
            target = self._dead_letters(header.group)
            level = 0
        elif level == 0:
            level = FIRST_RETRY_LEVEL + message.reconsume_times

        def stored(put: WriteResult) -> None:
            if not put.stored:
                answer(put.code, put.remark)
                return
            end = put.appended[0].end
            origin = message.properties_dict().get(RETRY_TOPIC, message.topic)
            if self._topics.get(origin) is None:  # a property says it, and may say anything
                origin = message.topic
            self._counters.went_back(origin, header.group, dead=dead)
            self.sent.remember(header.group, message, end, dead=dead)
            self._writer.when_durable(end, answer)

        delay_ms = None
        if not dead and header.delay_ms is not None and header.delay_ms <= self._timer_ms_max:
            delay_ms = max(header.delay_ms, 1)
        copy = retry_copy(message, target, level, delay_ms, failure_of(header) if dead else {})
        self._writer.put(copy, stored, wait=False)
        return None

    def redirect(
        self, message: PendingMessage, properties: dict[str, str], max_reconsume_times: int | None
    ) -> None:
        """A consumer re-sends to its retry topic when sending back fails; past the limit it is a dead letter."""
        name = message.topic.removeprefix(RETRY_PREFIX)
        if message.reconsume_times >= _tries_max(self._group(name), max_reconsume_times):
            message.topic = self._dead_letters(name).name
            message.queue_id = 0
            properties.pop(DELAY, None)

    def _group(self, name: str) -> SubscriptionGroup:
        group = self._groups.get_or_create(name)
        if group is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}{FAQ}"
            )
        return group

    def _dead_letters(self, group: str) -> TopicConfig:
        return self._topics.create_in_send_back(dlq_topic(group), DLQ_QUEUES, READ_WRITE)


def _tries_max(group: SubscriptionGroup, asked: int | None) -> int:
    return group.retry_max if asked is None else asked


def failure_of(header: ConsumerSendMsgBackHeader) -> dict[str, str]:
    """What the client says of its last try, as properties of a dead letter; bounded, and free of separators."""
    said = {
        FAILURE_REASON: header.failure_reason,
        FAILURE_CLIENT: header.failure_client,
        FAILURE_TRACE: header.failure_trace,
    }
    return {name: text.translate(NO_SEPARATORS)[:FAILURE_CHARS_MAX] for name, text in said.items() if text}


def retry_copy(
    message: StoredMessage,
    target: TopicConfig,
    level: int,
    delay_ms: int | None = None,
    failure: Mapping[str, str] = NO_FAILURE,
) -> PendingMessage:
    """The message as it is stored for its next try, after the level's pause or, if given, after `delay_ms`."""
    properties = message.properties_dict()
    properties.setdefault(RETRY_TOPIC, message.topic)
    properties.setdefault(ORIGIN_MESSAGE_ID, message.offset_msg_id)
    properties[WAIT] = "false"
    properties[DELAY] = str(level)
    if delay_ms is not None:
        # A message that was timed before carries the marks of that: it is to be timed anew.
        properties = {name: value for name, value in properties.items() if name not in TIMER_MARKS}
        properties[DELAY] = "0"
        properties[TIMER_DELAY_MS] = str(delay_ms)
    for name, text in failure.items():  # a note must not be what makes the properties too long
        if len(rejoin_properties({**properties, name: text})) <= PROPERTIES_BYTES_MAX:
            properties[name] = text
    queue_id = random.randrange(max(1, target.write_queues))
    pending = message.pending(target.name, queue_id, rejoin_properties(properties))
    pending.reconsume_times = min(pending.reconsume_times + 1, TRIES_MAX)
    return pending


def retry_feature(send_back: SendBack) -> Feature:
    sent = send_back.sent
    return Feature(
        "retry",
        handlers={RequestCode.CONSUMER_SEND_MSG_BACK: send_back.handle},
        redirects=(send_back.redirect,),
        replays=(Replay(sent.since, sent.on_message, sent.finish, SkipFilter(prefixes=(DLQ_PREFIX,))),),
        on_offset_back=(sent.set_back,),
        state=(sent,),
        changes=(
            ConfigChange(
                ("brokerPermission",),
                lambda broker, store: send_back.set_permission(broker.permission),
            ),
        ),
    )
