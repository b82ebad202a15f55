"""Topics and groups of one test: names as the program has them, in a namespace that nobody else has."""

import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from rocketeer.admin.blocking import Admin
from rocketeer.client.app import App
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.sync.loop_thread import LoopThread
from rocketeer.client.sync.producer import Producer
from rocketeer.client.sync.pull_consumer import PullConsumer
from rocketeer.errors import NoRoute
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.model.topic import TopicConfig, dlq_topic, with_namespace
from rocketeer.testing.cluster import Cluster

QUEUES: Final = 1
"""Queues of the topics that are made for an app: messages come in the order they were sent in."""
_numbers = itertools.count(1)


class Isolated:
    """What a test uses of a cluster that others use as well; `options` are for clients of its own.

    Every topic and group is in a namespace of this test's, so "orders" is empty and new in each.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.nameserver = cluster.nameserver
        self.namespace = f"test-{os.getpid()}-{next(_numbers)}"
        self.options: dict[str, Any] = {"nameserver": self.nameserver, "namespace": self.namespace}
        """`Producer("shop", **isolated.options)`"""
        self._broker = cluster.broker

    def create_topic(self, topic: str, queues: int = QUEUES) -> None:
        """Make the topic; sending to it does so, too, but a consumer that runs finds it later then."""
        name = with_namespace(topic, self.namespace)
        with Admin(self.nameserver) as admin:
            admin.update_topic(TopicConfig(name, queues, queues), broker=self._broker)

    @contextlib.asynccontextmanager
    async def run(self, app: App) -> AsyncIterator[App]:
        """The app for as long as the block lasts: its topics are there, and what is sent comes at once."""
        self._prepare(app)
        async with app:
            yield app

    @contextlib.contextmanager
    def run_in_thread(self, app: App) -> Iterator[App]:
        """The same for tests without asyncio."""
        self._prepare(app)
        thread = LoopThread.acquire()
        try:
            thread.call(app.start())
            try:
                yield app
            finally:
                thread.call(app.close())
        finally:
            thread.release()

    def _prepare(self, app: App) -> None:
        app.configure(
            {
                **self.options,
                "consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                "rebalance_s": 0.5,
                "route_poll_s": 0.5,
                "producer": self.options,
            }
        )
        for topic in app.topics:
            self.create_topic(topic)

    @contextlib.contextmanager
    def producer(self, group: str = "test") -> Iterator[Producer]:
        """A producer for what the test itself sends."""
        with Producer(group, **self.options) as producer:
            yield producer

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """All there are in the topic, queue by queue; none when it does not exist."""
        with PullConsumer("test-reader", **self.options) as reader:
            try:
                queues = reader.queues(topic)
            except NoRoute:
                return []
            return [message for queue in queues for message in reader.read(queue)]

    def dead_letters(self, group: str) -> list[ReceivedMessage]:
        """What the group has given up."""
        return self.messages(dlq_topic(group))
