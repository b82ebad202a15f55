"""Everything a pull consumer can ask, as plans over queues the way users name them (without namespace)."""

from collections.abc import Iterable

from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.consumer_ports import filtered
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans import groups, offsets
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.pull import ANSWER_S, PullResult, PullSettings, pull
from rocketeer.client.plans.routes import find_route
from rocketeer.errors import ClientError, ConfigError
from rocketeer.filter.subscribing import subscription_of
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL
from rocketeer.model.topic import without_namespace

RETRIES_MAX = 16


def check_queue(queue: MessageQueue) -> None:
    """Raise ConfigError for what a user gave that is no queue."""
    if not isinstance(queue, MessageQueue):
        raise ConfigError(f"queue is {queue!r:.80}: it must be a MessageQueue, as queues(topic) has them")


def checked_place(queue: MessageQueue, offset: int) -> QueueOffset:
    """The offset a user gave; raises ConfigError for what is no queue, or no offset in one."""
    check_queue(queue)
    if type(offset) is not int or offset < 0:
        raise ConfigError(f"offset {offset!r:.80} is not a place in a queue: 0 is the first")
    return QueueOffset(offset)


class QueueQueries:
    """One group's view of the cluster; keeps no state, so threads may share it."""

    def __init__(self, config: ConsumerConfig, cluster: ClusterRoutes) -> None:
        self._config = config
        self._cluster = cluster
        self._group = config.full_group

    def inner(self, queue: MessageQueue) -> MessageQueue:
        """The queue as brokers know it; raises ConfigError for what is none."""
        check_queue(queue)
        if not self._config.namespace:
            return queue
        return MessageQueue(self._config.full_topic(queue.topic), queue.broker_name, queue.queue_id)

    def outer(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Queues as users name them."""
        namespace = self._config.namespace
        if not namespace:
            return list(queues)
        return [
            MessageQueue(without_namespace(queue.topic, namespace), queue.broker_name, queue.queue_id)
            for queue in queues
        ]

    def queues(self, topic: str) -> Plan[list[MessageQueue]]:
        """The queues of a topic that can be read; raises NoRoute."""
        routes, nameservers, timeout_s = self._cluster
        known = yield from find_route(self._config.full_topic(topic), routes, nameservers, timeout_s)
        return self.outer(known.subscribe)

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        tags: str = SUB_ALL,
        sql: str | None = None,
        max_count: int | None = None,
        hold_s: float = 0.0,
        broker_id: int = 0,
    ) -> Plan[PullResult]:
        begin = checked_place(queue, offset)
        if max_count is not None and max_count < 1:
            raise ConfigError(f"max_count is {max_count}: it must be 1 or more")
        inside = self.inner(queue)
        settings = PullSettings(
            self._group, max_count or self._config.pull_batch, hold_s, self._config.namespace
        )
        result = yield from pull(
            settings,
            self._cluster,
            inside,
            begin,
            subscription_of(inside.topic, tags, sql),
            broker_id=broker_id,
            timeout_s=hold_s + ANSWER_S,
        )
        hooks = self._config.filter_hooks
        if not hooks or not result.messages:
            return result
        return result._replace(messages=filtered(hooks, self._group, queue, result.messages))

    def committed(self, queue: MessageQueue) -> Plan[QueueOffset | None]:
        return offsets.committed_offset(self._cluster, self._group, self.inner(queue))

    def commit(self, queue: MessageQueue, offset: int) -> Plan[None]:
        return offsets.commit_offset(
            self._cluster, self._group, self.inner(queue), checked_place(queue, offset)
        )

    def min_offset(self, queue: MessageQueue) -> Plan[QueueOffset]:
        return offsets.min_offset(self._cluster, self.inner(queue))

    def max_offset(self, queue: MessageQueue) -> Plan[QueueOffset]:
        return offsets.max_offset(self._cluster, self.inner(queue))

    def offset_at(self, queue: MessageQueue, time_ms: int) -> Plan[QueueOffset]:
        return offsets.offset_at(self._cluster, self.inner(queue), time_ms)

    def earliest_ms(self, queue: MessageQueue) -> Plan[int]:
        return offsets.earliest_ms(self._cluster, self.inner(queue))

    def send_back(self, message: ReceivedMessage, delay_level: int) -> Plan[None]:
        if not isinstance(message, ReceivedMessage):
            raise ClientError(f"a ReceivedMessage can be sent back, not {type(message).__name__}")
        retries = self._config.retries if self._config.retries >= 0 else RETRIES_MAX
        return groups.send_back(
            self._cluster, self._group, message, delay_level=delay_level, retries_max=retries
        )
