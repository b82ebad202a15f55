"""How far queues and their consumers are: of a topic (202), of a group (208, 303), of all groups (317).

What is asked for here can be large: the answers are made in slices, so that sends and pulls go on meanwhile.
"""

import time
from collections.abc import Awaitable, Iterable
from typing import Protocol

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.groups import GroupTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.consume_stats import (
    ConsumeStats,
    QueueProgress,
    QueueRange,
    encoding_consume_stats,
    encoding_group_consume_stats,
    encoding_topic_stats,
    join_broker_consume_stats,
    merge,
)
from rocketeer.protocol.bodies.time_spans import ConsumeTimeSpan, encode_time_span, join_time_spans
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers import (
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    GetTopicStatsHeader,
    QueryConsumeTimeSpanHeader,
    decode_header,
)
from rocketeer.remoting.server import Connection, Handler
from rocketeer.remoting.slices import Steps, run_sliced

Answer = Command | Awaitable[Command]


class Queues(Protocol):
    """What these requests ask of the store."""

    def min_queue_offset(self, topic: str, queue_id: int) -> QueueOffset: ...

    def max_queue_offset(self, topic: str, queue_id: int) -> QueueOffset: ...

    def store_ms_at(self, topic: str, queue_id: int, offset: QueueOffset) -> int: ...

    def earliest_ms(self, topic: str, queue_id: int) -> int: ...


class GroupRates(Protocol):
    """What these requests ask of the counters."""

    def group_get_tps(self, topic: str, group: str) -> float: ...


class Progress:
    """See the module's text."""

    def __init__(
        self,
        *,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        clients: ClientTable[Connection],
        queues: Queues,
        rates: GroupRates,
        clock: Clock,
        broker_name: str,
        address: str,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._queues = queues
        self._rates = rates
        self._clock = clock
        self._broker_name = broker_name
        self._address = address

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_TOPIC_STATS_INFO: self.topic_stats,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_spans,
            RequestCode.GET_BROKER_CONSUME_STATS: self.broker_stats,
        }

    # --- a topic -----------------------------------------------------------------------------

    def topic_stats(self, command: Command, connection: Connection) -> Answer:
        topic = self._topic(decode_header(GetTopicStatsHeader, command.ext).topic)

        def steps() -> Steps[Command]:
            table: dict[MessageQueue, QueueRange] = {}
            for queue_id in range(max(topic.read_queues, topic.write_queues)):
                first = max(0, self._queues.min_queue_offset(topic.name, queue_id))
                end = self._queues.max_queue_offset(topic.name, queue_id)
                last_ms = self._queues.store_ms_at(topic.name, queue_id, QueueOffset(end - 1)) if end else 0
                table[self._queue(topic, queue_id)] = QueueRange(first, end, max(0, last_ms))
                yield
            return reply(command, body=(yield from encoding_topic_stats(table)))

        return run_sliced(steps())

    # --- a group -----------------------------------------------------------------------------

    def consume_stats(self, command: Command, connection: Connection) -> Answer:
        header = decode_header(GetConsumeStatsHeader, command.ext)
        group, asked = header.consumer_group, (header.topic or "").strip()

        def steps() -> Steps[Command]:
            names = [asked] if asked else sorted(self._offsets.topics_of(group))
            parts: list[ConsumeStats] = []
            for topic in self._consumed(group, names):
                parts.append((yield from self._of_topic(group, topic)))
            return reply(command, body=(yield from encoding_consume_stats(merge(parts))))

        return run_sliced(steps())

    def time_spans(self, command: Command, connection: Connection) -> Answer:
        header = decode_header(QueryConsumeTimeSpanHeader, command.ext)
        topic = self._topic(header.topic)

        def steps() -> Steps[Command]:
            spans: list[bytes] = []
            for queue_id in range(topic.write_queues):
                spans.append(encode_time_span(self._time_span(header.group, topic, queue_id)))
                yield
            return reply(command, body=join_time_spans(spans))

        return run_sliced(steps())

    def _time_span(self, group: str, topic: TopicConfig, queue_id: int) -> ConsumeTimeSpan:
        queues, name = self._queues, topic.name
        end = queues.max_queue_offset(name, queue_id)
        first_ms = queues.earliest_ms(name, queue_id)
        last_ms = queues.store_ms_at(name, queue_id, QueueOffset(end - 1))
        at = self._offsets.query(group, name, queue_id) or 0
        consumed_ms = queues.store_ms_at(name, queue_id, QueueOffset(at - 1)) if at > 0 else first_ms
        delay_ms = (
            self._clock.now_ms() - queues.store_ms_at(name, queue_id, QueueOffset(max(at, 0)))
            if at < end
            else 0
        )
        return ConsumeTimeSpan(
            self._queue(topic, queue_id), first_ms, last_ms, consumed_ms, delay_ms,
            _time_text(first_ms), _time_text(last_ms), _time_text(consumed_ms),
        )  # fmt: skip

    def _of_topic(self, group: str, topic: TopicConfig) -> Steps[ConsumeStats]:
        table: dict[MessageQueue, QueueProgress] = {}
        for queue_id in range(topic.read_queues):
            table[self._queue(topic, queue_id)] = self._of_queue(group, topic.name, queue_id)
            yield
        return ConsumeStats(self._rates.group_get_tps(topic.name, group), table)

    def _of_queue(self, group: str, topic: str, queue_id: int) -> QueueProgress:
        at = max(0, self._offsets.query(group, topic, queue_id) or 0)
        last_ms = self._queues.store_ms_at(topic, queue_id, QueueOffset(at - 1)) if at else 0
        return QueueProgress(self._queues.max_queue_offset(topic, queue_id), at, max(0, last_ms))

    # --- all groups --------------------------------------------------------------------------

    def broker_stats(self, command: Command, connection: Connection) -> Answer:
        order_only = decode_header(GetBrokerConsumeStatsHeader, command.ext).order

        def steps() -> Steps[Command]:
            topics_of = self._offsets.topics_by_group()
            yield
            lag = 0
            pieces: list[bytes] = []
            for group in list(self._groups.configs):
                parts: list[ConsumeStats] = []
                for topic in self._consumed(group, sorted(topics_of.get(group, ()))):
                    if topic.order or not order_only:
                        parts.append((yield from self._of_topic(group, topic)))
                        lag += parts[-1].lag
                pieces.append((yield from encoding_group_consume_stats(group, parts)))
                yield
            return reply(command, body=join_broker_consume_stats(self._address, lag, pieces))

        return run_sliced(steps())

    # --- inside ------------------------------------------------------------------------------

    def _consumed(self, group: str, names: Iterable[str]) -> list[TopicConfig]:
        """Those of the topics that exist and, while the group is here, that it subscribes to."""
        online = self._clients.consumer(group)
        subscribed = online.subscriptions if online is not None else {}
        return [
            topic
            for name in names
            if (topic := self._topics.get(name)) is not None and (not subscribed or name in subscribed)
        ]

    def _topic(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return topic

    def _queue(self, topic: TopicConfig, queue_id: int) -> MessageQueue:
        return MessageQueue(topic.name, self._broker_name, queue_id)


def _time_text(ms: int) -> str:
    """As RocketMQ writes times: local, to the millisecond; what is before the epoch is no time."""
    if ms < 0:
        return ""
    moment = time.localtime(ms / 1000)
    return f"{time.strftime('%Y-%m-%d#%H:%M:%S', moment)}:{ms % 1000:03d}"
