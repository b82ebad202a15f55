"""The driver's view of a running cluster: which queues there are, from where to where, and a group's progress."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.discovery import discover
from rocketeer.client.plans.brokers import Cluster, broker_of
from rocketeer.client.plans.offsets import commit_offsets, max_offsets, min_offsets
from rocketeer.client.plans.pull import pull
from rocketeer.client.plans.routes import fetch_route, fetch_topics
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.errors import ClientError, NoRoute, RemotingError
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import Subscription
from rocketeer.record.layout import HEADS
from rocketeer.spark.source.offsets import Places
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.pulls import PullTerms

log = logging.getLogger(__name__)

_SMALLEST: Final = HEADS[0].size


class BrokersView:
    """Routes are kept and looked up anew by `queues`; a broker that does not answer raises."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        nameservers = NameServers(discover(options.nameserver))
        self._cluster = Cluster(RouteCache(), nameservers, options.fetch_timeout_ms / 1000)
        self._driver = BlockingDriver()
        self._settings = PullTerms.of(options).settings

    # --- which queues ------------------------------------------------------------------------

    def queues(self) -> frozenset[MessageQueue]:
        options = self._options
        if options.assign is not None:
            for topic in {queue.topic for queue in options.assign}:
                self._look_up(topic, must_exist=True)
            return options.assign
        if options.subscribe is not None:
            found = [self._look_up(topic, must_exist=True) for topic in options.subscribe]
        else:
            _, nameservers, timeout_s = self._cluster
            known = self._driver.run(fetch_topics(nameservers, timeout_s))
            found = [
                self._look_up(topic, must_exist=False) for topic in sorted(known) if options.wants(topic)
            ]
        return frozenset(queue for queues in found for queue in queues)

    def _look_up(self, topic: str, *, must_exist: bool) -> tuple[MessageQueue, ...]:
        routes, nameservers, timeout_s = self._cluster
        route = self._driver.run(fetch_route(topic, nameservers, timeout_s))
        if route is None:
            if must_exist:
                raise NoRoute(topic, nameservers.addresses)
            return ()
        return routes.put(topic, route).subscribe

    def place(self, piece: QueueRange) -> str:
        return self._driver.run(broker_of(piece.queue, self._cluster)).address

    # --- from where to where -----------------------------------------------------------------

    def lows(self, queues: Iterable[MessageQueue]) -> Places:
        return self._driver.run(min_offsets(self._cluster, queues))

    def highs(self, queues: Iterable[MessageQueue]) -> Places:
        return self._driver.run(max_offsets(self._cluster, queues))

    # --- what stands at an offset ------------------------------------------------------------

    def first_at(self, queue: MessageQueue, time_ms: int) -> int | None:
        """By halving, with a look at one message each time: brokers themselves only tell the nearest."""
        low, high = self.lows([queue])[queue], self.highs([queue])[queue]
        end = high
        while low < high:
            middle = (low + high) // 2
            found = self._peek(queue, middle, count=1)
            if not found or found[0].store_ms < time_ms:
                low = middle + 1
            else:
                high = middle
        return low if low < end else None

    def mean_bytes(self, queue: MessageQueue, offset: int) -> float:
        found = self._peek(queue, offset, count=32)
        return sum(message.size for message in found) / len(found) if found else float(_SMALLEST)

    def _peek(self, queue: MessageQueue, offset: int, count: int) -> Sequence[ReceivedMessage]:
        """A few messages from the offset on, whatever their tags; none if they are gone."""
        settings = replace(self._settings, max_count=count)
        everything = Subscription(queue.topic)
        timeout_s = self._cluster.timeout_s
        found = self._driver.run(
            pull(settings, self._cluster, queue, offset, everything, timeout_s=timeout_s)
        )
        return found.messages

    # --- progress of a group -----------------------------------------------------------------

    def commit(self, group: str, places: Places) -> None:
        """What brokers do not take is logged: the checkpoint is the truth, this is for people to see."""
        for name in sorted({queue.broker_name for queue in places}):
            some = {queue: offset for queue, offset in places.items() if queue.broker_name == name}
            try:
                self._driver.run(commit_offsets(self._cluster, group, some))
            except (RemotingError, ClientError) as error:
                log.warning("progress of group not shown group=%s broker=%s error=%s", group, name, error)

    def close(self) -> None:
        self._driver.close()
