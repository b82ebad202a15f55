"""How far queues and their consumers are: of a topic (202), of a group (208, 303), of all groups (317).

What is asked for here can be large: the answers are made in slices, so that sends and pulls go on meanwhile.
"""

import time
from collections.abc import Awaitable, Collection, Iterator
from typing import Protocol

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.consume_stats import (
    QueueProgress,
    TopicQueueStats,
    encoding_broker_consume_stats,
    encoding_topic_stats,
    writing_consume_stats,
)
from rocketeer.protocol.bodies.long_body import LongBody, in_order
from rocketeer.protocol.bodies.time_spans import ConsumeTimeSpan, encoding_time_spans
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.admin import GetBrokerConsumeStatsHeader
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.topics import (
    GetConsumeStatsHeader,
    QueryConsumeTimeSpanHeader,
    TopicHeader,
)
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import run_sliced
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore

Answer = Command | Awaitable[Command]


class GroupRates(Protocol):
    """What these requests ask of the counters."""

    def group_get_tps(self, topic: str, group: str) -> float: ...


class ProgressHandlers:
    """Answers from queues' ends, groups' offsets and what the recorder counted, in slices."""

    def __init__(
        self,
        *,
        topics: TopicTable,
        groups: ConsumerGroupTable,
        offsets: ConsumerOffsets,
        clients: ClientTable[Connection],
        queues: MessageStore,
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
        topic = self._topic(decode_header(TopicHeader, command.ext).topic)

        def steps() -> Steps[Command]:
            return reply(command, body=(yield from encoding_topic_stats(self._ranges(topic))))

        return run_sliced(steps())

    def _ranges(self, topic: TopicConfig) -> Iterator[tuple[MessageQueue, TopicQueueStats]]:
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            first = max(QueueOffset(0), self._queues.min_queue_offset(topic.name, queue_id))
            end = self._queues.max_queue_offset(topic.name, queue_id)
            last_ms = self._queues.store_ms_at(topic.name, queue_id, QueueOffset(end - 1)) if end else 0
            yield self._queue(topic, queue_id), TopicQueueStats(first, end, max(0, last_ms))

    # --- a group -----------------------------------------------------------------------------

    def consume_stats(self, command: Command, connection: Connection) -> Answer:
        header = decode_header(GetConsumeStatsHeader, command.ext)
        group, asked = header.consumer_group, (header.topic or "").strip()

        def steps() -> Steps[Command]:
            names = [asked] if asked else (yield from self._offsets.topics_of(group))
            topics = yield from self._consumed(group, names)
            tps = 0.0
            for topic in topics:
                tps += self._rates.group_get_tps(topic.name, group)
                yield
            queues = (each for topic in topics for each in self._progress(group, topic))
            body = LongBody()
            yield from writing_consume_stats(body, tps, queues)
            return reply(command, body=(yield from body.joining()))

        return run_sliced(steps())

    def time_spans(self, command: Command, connection: Connection) -> Answer:
        header = decode_header(QueryConsumeTimeSpanHeader, command.ext)
        topic = self._topic(header.topic)

        def steps() -> Steps[Command]:
            queue_ids = range(topic.write_queues)
            spans = (self._time_span(header.group, topic, queue_id) for queue_id in queue_ids)
            return reply(command, body=(yield from encoding_time_spans(spans)))

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

    def _progress(self, group: str, topic: TopicConfig) -> Iterator[tuple[MessageQueue, QueueProgress]]:
        for queue_id in range(topic.read_queues):
            yield self._queue(topic, queue_id), self._of_queue(group, topic.name, queue_id)

    def _of_queue(self, group: str, topic: str, queue_id: int) -> QueueProgress:
        at = max(QueueOffset(0), self._offsets.query(group, topic, queue_id) or QueueOffset(0))
        last_ms = self._queues.store_ms_at(topic, queue_id, QueueOffset(at - 1)) if at else 0
        return QueueProgress(self._queues.max_queue_offset(topic, queue_id), at, max(0, last_ms))

    # --- all groups --------------------------------------------------------------------------

    def broker_stats(self, command: Command, connection: Connection) -> Answer:
        order_only = decode_header(GetBrokerConsumeStatsHeader, command.ext).order

        def steps() -> Steps[Command]:
            topics_of = yield from self._offsets.topics_by_group(self._groups.configs)
            consumed: list[tuple[str, list[TopicConfig]]] = []  # a dict of very many takes long to grow
            for group in list(self._groups.configs):
                consumed.append((group, (yield from self._consumed(group, topics_of(group)))))
                yield
            lag = 0

            def progress(group: str, topic: TopicConfig) -> Iterator[tuple[MessageQueue, QueueProgress]]:
                nonlocal lag
                for queue, each in self._progress(group, topic):
                    lag += each.lag
                    yield queue, each

            groups = (
                (
                    group,
                    (
                        (self._rates.group_get_tps(topic.name, group), progress(group, topic))
                        for topic in topics
                        if topic.order or not order_only
                    ),
                )
                for group, topics in consumed
            )
            body = yield from encoding_broker_consume_stats(self._address, lambda: lag, groups)
            return reply(command, body=body)

        return run_sliced(steps())

    # --- inside ------------------------------------------------------------------------------

    def _consumed(self, group: str, names: Collection[str]) -> Steps[list[TopicConfig]]:
        """The named topics that exist and that the group, while it is connected, subscribes to."""
        online = self._clients.consumer(group)
        subscribed = online.subscriptions if online is not None else {}
        found = []
        for name in in_order(names):
            topic = self._topics.get(name)
            if topic is not None and (not subscribed or name in subscribed):
                found.append(topic)
            yield
        return found

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
