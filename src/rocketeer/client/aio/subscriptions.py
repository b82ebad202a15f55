"""What a consumer subscribes to, by topic as brokers know it; may change while it runs, from any thread."""

from collections.abc import Mapping
from dataclasses import replace

from rocketeer.client.core.config import ConsumerConfig
from rocketeer.clock import Clock
from rocketeer.filter.subscribing import subscription_of
from rocketeer.model.subscription import SUB_ALL, MessageModel, Subscription
from rocketeer.model.topic import check_topic, retry_topic


class Subscriptions:
    """Readers get a mapping that never changes: a change makes a new one."""

    def __init__(self, config: ConsumerConfig, clock: Clock, *, with_retries: bool) -> None:
        self._config = config
        self._clock = clock
        self._by_topic: Mapping[str, Subscription] = {}
        if with_retries and config.message_model is MessageModel.CLUSTERING:
            self.add(retry_topic(config.full_group), SUB_ALL)

    @property
    def by_topic(self) -> Mapping[str, Subscription]:
        return self._by_topic

    def get(self, topic: str) -> Subscription | None:
        return self._by_topic.get(topic)

    def add(self, topic: str, tags: str | None = SUB_ALL, sql: str | None = None) -> str:
        """Subscribe, or change the tags or the expression; the topic's full name.

        The newest version wins at the broker. BadSqlExpression, with the position, for an expression that is none.
        """
        check_topic(topic)
        full = self._config.full_topic(topic)
        made = subscription_of(full, tags, sql)
        before = self._by_topic.get(full)
        version = max(self._clock.now_ms(), before.version + 1 if before else 0)
        self._by_topic = {**self._by_topic, full: replace(made, version=version)}
        return full

    def remove(self, topic: str) -> str:
        full = self._config.full_topic(topic)
        self._by_topic = {name: each for name, each in self._by_topic.items() if name != full}
        return full
