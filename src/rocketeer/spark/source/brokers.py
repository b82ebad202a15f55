"""The driver's view of a running cluster: which queues there are, from where to where, and a group's progress."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.discovery import discover
from rocketeer.client.plans.brokers import ClusterRoutes, broker_of
from rocketeer.client.plans.offsets import commit_offsets, max_offsets, min_offsets
from rocketeer.client.plans.pull import pull
from rocketeer.client.plans.routes import fetch_route, fetch_topics
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.errors import ClientError, ConfigError, NoBroker, NoNameServer, NoRoute, RemotingError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import Subscription
from rocketeer.record.layout import HEADS
from rocketeer.spark.source.offsets import QueueOffsets
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.pulls import PullTerms, addresses_to_read

log = logging.getLogger(__name__)

_SMALLEST: Final = HEADS[0].size


class BrokersView:
    """Routes are kept and looked up anew by `queues`; a broker that does not answer raises."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        nameservers = NameServers(discover(options.nameserver))
        self._cluster = ClusterRoutes(RouteCache(), nameservers, options.request_timeout_ms / 1000)
        self._driver = BlockingDriver(options.security())
        self._settings = PullTerms.of(options).settings
        self._slaves_alone: set[str] = set()
        self.has_answered = False

    def broker_label(self, error: Exception) -> str:
        if isinstance(error, NoNameServer):
            return f"(name server {self._options.nameserver})"
        address = getattr(error, "address", None)
        for name, addresses in self._cluster.routes.brokers().items():
            if address in addresses.values():
                return f"{name} ({address})"
        return str(address or getattr(error, "broker", None) or "(unknown)")

    # --- which queues ------------------------------------------------------------------------

    def queues(self) -> frozenset[MessageQueue]:
        options = self._options
        if options.assign is not None:
            found = self._assigned(options.assign)
        elif options.subscribe is not None:
            found = self._all_of(options.subscribe, must_exist=True)
        else:
            _, nameservers, timeout_s = self._cluster
            known = self._driver.run(fetch_topics(nameservers, timeout_s))
            found = self._all_of(sorted(filter(options.wants, known)), must_exist=False)
        self.has_answered = True
        return found

    def _all_of(self, topics: Iterable[str], *, must_exist: bool) -> frozenset[MessageQueue]:
        return frozenset(queue for topic in topics for queue in self._look_up(topic, must_exist=must_exist))

    def _assigned(self, wanted: frozenset[MessageQueue]) -> frozenset[MessageQueue]:
        """All of them. At first each must be there; later a broker may be away."""
        there = self._all_of(sorted({queue.topic for queue in wanted}), must_exist=True)
        if self.has_answered:
            return wanted
        for queue in sorted(wanted - there):
            ids = sorted(each.queue_id for each in there if _place(each) == _place(queue))
            if not ids:
                raise NoBroker(queue.topic, queue.broker_name, "is in no route")
            raise ConfigError(
                f"option 'assign' names queue {queue.queue_id} of topic {queue.topic!r} on "
                f"{queue.broker_name!r}, which has queues {ids[0]} to {ids[-1]}"
            )
        return wanted

    def _look_up(self, topic: str, *, must_exist: bool) -> tuple[MessageQueue, ...]:
        routes, nameservers, timeout_s = self._cluster
        route = self._driver.run(fetch_route(topic, nameservers, timeout_s))
        if route is None:
            if must_exist:
                raise NoRoute(topic, nameservers.addresses)
            return ()
        return routes.put(topic, route).subscribe

    def place(self, piece: QueueRange) -> str:
        self._driver.run(broker_of(piece.queue, self._cluster))  # which raises if there is nobody
        return addresses_to_read(self._cluster.routes, piece.queue, self._options.read_from)[0]

    def check_filter(self, queues: Iterable[MessageQueue]) -> None:
        """An expression in SQL is tried on one queue of each broker: nobody but a broker knows whether it filters."""
        if self._options.sql is None:
            return
        timeout_s = self._cluster.timeout_s
        wanted = PullTerms.of(self._options)
        settings = replace(self._settings, max_count=1)
        for queue in {queue.broker_name: queue for queue in sorted(queues)}.values():
            filtered = Subscription(queue.topic, wanted.expression, wanted.kind)
            self._driver.run(
                pull(settings, self._cluster, queue, QueueOffset(0), filtered, timeout_s=timeout_s)
            )

    # --- from where to where -----------------------------------------------------------------

    def lows(self, queues: Iterable[MessageQueue]) -> QueueOffsets:
        return self._driver.run(min_offsets(self._cluster, queues))

    def highs(self, queues: Iterable[MessageQueue]) -> QueueOffsets:
        asked = tuple(queues)
        found = self._driver.run(max_offsets(self._cluster, asked))
        for name in sorted({queue.broker_name for queue in asked}):
            self._note_who_answered(name)
        return found

    def has_master(self, queue: MessageQueue) -> bool:
        return queue.broker_name not in self._slaves_alone

    def _note_who_answered(self, broker_name: str) -> None:
        """With the ends, as routes may have changed by the time somebody wants to know."""
        alone = self._cluster.routes.master(broker_name) is None
        if alone and broker_name not in self._slaves_alone:
            log.warning("queues end where a slave says, which may lag: no master broker=%s", broker_name)
        (self._slaves_alone.add if alone else self._slaves_alone.discard)(broker_name)

    # --- what stands at an offset ------------------------------------------------------------

    def first_at(self, queue: MessageQueue, time_ms: int) -> QueueOffset | None:
        """Search by halving, one message each time: brokers themselves only tell the nearest offset."""
        low, high = self.lows([queue])[queue], self.highs([queue])[queue]
        end = high
        while low < high:
            middle = QueueOffset((low + high) // 2)
            found = self._peek(queue, middle, count=1)
            if not found or found[0].store_ms < time_ms:
                low = QueueOffset(middle + 1)
            else:
                high = middle
        return low if low < end else None

    def stored_ms(self, queue: MessageQueue, offset: QueueOffset) -> int | None:
        found = self._peek(queue, offset, count=1)
        return found[0].store_ms if found else None

    def mean_bytes(self, queue: MessageQueue, offset: QueueOffset) -> float:
        found = self._peek(queue, offset, count=32)
        return sum(message.size for message in found) / len(found) if found else float(_SMALLEST)

    def _peek(self, queue: MessageQueue, offset: QueueOffset, count: int) -> Sequence[ReceivedMessage]:
        """A few messages from the offset on, whatever their tags; none if they are gone."""
        settings = replace(self._settings, max_count=count)
        everything = Subscription(queue.topic)
        timeout_s = self._cluster.timeout_s
        found = self._driver.run(
            pull(settings, self._cluster, queue, offset, everything, timeout_s=timeout_s)
        )
        return found.messages

    # --- progress of a group -----------------------------------------------------------------

    def commit(self, group: str, places: QueueOffsets) -> None:
        """What brokers do not take is logged: the checkpoint is what counts, this is for people to see."""
        for name in sorted({queue.broker_name for queue in places}):
            some = {queue: offset for queue, offset in places.items() if queue.broker_name == name}
            try:
                self._driver.run(commit_offsets(self._cluster, group, some))
            except (RemotingError, ClientError) as error:
                log.warning("progress of group not shown group=%s broker=%s error=%s", group, name, error)

    def close(self) -> None:
        self._driver.close()


def _place(queue: MessageQueue) -> tuple[str, str]:
    return queue.topic, queue.broker_name
