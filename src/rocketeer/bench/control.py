"""Calls a benchmark or a test makes beside the load: plans of the client and of admin, run in the calling thread."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self, TypeVar

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.messages import pull_messages
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.core.transient import is_led_elsewhere
from rocketeer.client.plans.effects import Call, Plan
from rocketeer.client.plans.offsets import max_offset
from rocketeer.client.plans.pull import PullStatus
from rocketeer.client.plans.queries import FOREVER_MS, query_records
from rocketeer.client.plans.replies import ask
from rocketeer.client.plans.topics import put_topic, topic_table
from rocketeer.client.secure import connection_security
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.clock import SystemClock
from rocketeer.errors import BrokerRefused
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import MASTER_ID, BrokerData, Route
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.command import Command, request

T = TypeVar("T")


class Control:
    """Runs plans that ask one broker or name server; the environment may name an account.

    `Admin` finds brokers by their name servers. Here one address is all that is known, of either: `context` is what
    admin's plans are given. The methods are what admin lacks, or what one broker must answer for itself.
    """

    def __init__(self, address: str, *, timeout_s: float = 10) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self.context = AdminContext(NameServers([address]), _routes_to(address), SystemClock(), timeout_s)
        self.cluster = self.context.cluster
        self._driver = BlockingDriver(connection_security(now_ms=SystemClock().now_ms))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver.close()

    def run(self, plan: Plan[T]) -> T:
        return self._driver.run(plan)

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        """A queue of this broker, as plans want it."""
        return MessageQueue(topic, self.address, queue_id)

    def call(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """Ask and wait for the reply, whatever its code."""
        return self.run(_call(self.address, request(code, ext, body), self._timeout_s))

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """Ask; a reply that is not SUCCESS is an error."""
        return self.run(ask(self.address, request(code, ext, body), self._timeout_s))

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """Where the queue ends; 0 for a queue nobody has written to."""
        return self.run(max_offset(self.cluster, self.queue(topic, queue_id)))

    def messages(self, topic: str, queue_id: int, offset: int = 0) -> Iterator[ReceivedMessage]:
        """Everything in the queue from `offset` on, pulled as a consumer pulls it."""
        queue = self.queue(topic, queue_id)
        while True:
            found = self.run(pull_messages(self.context, queue, offset, group="bench"))
            if found.status is not PullStatus.FOUND:
                return
            yield from found.messages
            offset = found.next_offset

    def has_key(self, topic: str, key: str) -> bool:
        """Whether the index knows a message of this topic by this key."""
        found = query_records(
            self.address,
            topic,
            key,
            self._timeout_s,
            max_count=1,
            begin_ms=0,
            end_ms=FOREVER_MS,
            unique_key=False,
        )
        return bool(self.run(found))

    def create_topic(self, topic: str, *, queues: int) -> None:
        """`queues` to write to, as many to read from; a member that was elected just now is asked until it leads."""
        config = TopicConfig(topic, read_queues=queues, write_queues=queues)
        give_up_s = time.monotonic() + self._timeout_s
        while True:
            try:
                return self.run(put_topic(self.address, config, self._timeout_s))
            except BrokerRefused as refused:
                if not is_led_elsewhere(refused) or time.monotonic() > give_up_s:
                    raise
            time.sleep(0.02)

    def topics(self) -> set[str]:
        """The topics the broker has."""
        return set(self.run(topic_table(self.address, self._timeout_s)))


def _call(address: str, command: Command, timeout_s: float) -> Plan[Command]:
    reply: Command = yield Call(address, command, timeout_s)
    return reply


def _routes_to(address: str) -> RouteCache:
    """The routes of a cluster of which one broker's address is all that is known; its name is empty."""
    routes = RouteCache()
    routes.put("", Route(brokers=(BrokerData("", address, {MASTER_ID: address}),)))
    return routes
