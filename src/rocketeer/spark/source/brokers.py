"""The driver's view of a running cluster: which queues there are, from where to where, and a group's progress."""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.discovery import discover
from rocketeer.client.plans.replies import refused
from rocketeer.client.plans.routes import ask_nameservers, fetch_route
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.errors import ClientError, NoBroker, NoRoute, RemotingError
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.topics import decode_topic_list
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers import (
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    UpdateConsumerOffsetHeader,
    decode_header,
)
from rocketeer.protocol.headers.base import Header, encode_header
from rocketeer.record.layout import HEADS
from rocketeer.record.vectorised import fixed_fields, record_offsets
from rocketeer.spark.source import wire
from rocketeer.spark.source.offsets import Places
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.pulls import PullTerms, pull_command

log = logging.getLogger(__name__)

_SMALLEST: Final = HEADS[0].size


class BrokersView:
    """Routes are kept and looked up anew by `queues`; a broker that does not answer raises."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._timeout_s = options.fetch_timeout_ms / 1000
        self._nameservers = NameServers(discover(options.nameserver))
        self._routes = RouteCache()
        self._driver = BlockingDriver()
        self._terms = PullTerms.of(options)

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
            known = known_topics(self._driver, self._nameservers, self._timeout_s)
            found = [
                self._look_up(topic, must_exist=False) for topic in sorted(known) if options.wants(topic)
            ]
        return frozenset(queue for queues in found for queue in queues)

    def _look_up(self, topic: str, *, must_exist: bool) -> tuple[MessageQueue, ...]:
        route = self._driver.run(fetch_route(topic, self._nameservers, self._timeout_s))
        if route is None:
            if must_exist:
                raise NoRoute(topic, self._nameservers.addresses)
            return ()
        return self._routes.put(topic, route).subscribe

    def place(self, piece: QueueRange) -> str:
        return self._address(piece.queue)

    def _address(self, queue: MessageQueue) -> str:
        found = self._routes.address(queue.broker_name)
        if found is None:
            self._look_up(queue.topic, must_exist=True)
            found = self._routes.address(queue.broker_name)
        if found is None:
            raise NoBroker(queue.topic, queue.broker_name, "is in no route")
        return found.address

    # --- from where to where -----------------------------------------------------------------

    def lows(self, queues: Iterable[MessageQueue]) -> Places:
        return self._offsets(
            queues, RequestCode.GET_MIN_OFFSET, lambda queue: GetMinOffsetHeader(queue.topic, queue.queue_id)
        )

    def highs(self, queues: Iterable[MessageQueue]) -> Places:
        return self._offsets(
            queues, RequestCode.GET_MAX_OFFSET, lambda queue: GetMaxOffsetHeader(queue.topic, queue.queue_id)
        )

    def _offsets(
        self, queues: Iterable[MessageQueue], code: int, header: Callable[[MessageQueue], Header]
    ) -> Places:
        places: Places = {}
        for address, some in self._by_address(queues).items():
            for queue, reply in self._ask(address, some, code, header):
                if reply.code != ResponseCode.SUCCESS:
                    raise refused(reply, f"{queue.broker_name} ({address})", queue)
                places[queue] = decode_header(OffsetReplyHeader, reply.ext).offset
        return places

    def _by_address(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        found: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            found.setdefault(self._address(queue), []).append(queue)
        return found

    def _ask(
        self, address: str, queues: list[MessageQueue], code: int, header: Callable[[MessageQueue], Header]
    ) -> list[tuple[MessageQueue, Command]]:
        """One question about each queue, all at once; a connection that was kept too long is tried anew."""
        for attempt in (0, 1):
            commands = [
                request(code, {**encode_header(header(queue)), "bname": queue.broker_name})
                for queue in queues
            ]
            try:
                connection = wire.borrow(address)
                replies = connection.ask(commands, self._timeout_s)
            except RemotingError:
                wire.forget(address)
                if attempt:
                    raise
                continue
            wire.give_back(connection)
            return [(queue, head) for queue, (head, _) in zip(queues, replies, strict=True)]
        raise AssertionError("the second attempt returns or raises")

    # --- what stands at an offset ------------------------------------------------------------

    def first_at(self, queue: MessageQueue, time_ms: int) -> int | None:
        """By halving, with a look at one message each time: brokers themselves only tell the nearest."""
        low, high = self.lows([queue])[queue], self.highs([queue])[queue]
        end = high
        while low < high:
            middle = (low + high) // 2
            stored_ms = self._stored_ms(queue, middle)
            if stored_ms is None or stored_ms < time_ms:
                low = middle + 1
            else:
                high = middle
        return low if low < end else None

    def _stored_ms(self, queue: MessageQueue, offset: int) -> int | None:
        body = self._peek(queue, offset, count=1)
        offsets = record_offsets(body)
        return int(fixed_fields(body, offsets)["store_ms"][0]) if len(offsets) else None

    def mean_bytes(self, queue: MessageQueue, offset: int) -> float:
        body = self._peek(queue, offset, count=32)
        offsets = record_offsets(body)
        return len(body) / len(offsets) if len(offsets) else float(_SMALLEST)

    def _peek(self, queue: MessageQueue, offset: int, count: int) -> bytes:
        """A few messages from the offset on, whatever their tags; none if they are gone."""
        address = self._address(queue)
        command = pull_command(self._terms.unfiltered(), queue, offset, count, large_bytes=None)
        connection = wire.borrow(address)
        [(head, body)] = connection.ask([command], self._timeout_s)
        wire.give_back(connection)
        return body if head.code == ResponseCode.SUCCESS else b""

    # --- progress of a group -----------------------------------------------------------------

    def commit(self, group: str, places: Places) -> None:
        """What brokers do not take is logged: the checkpoint is the truth, this is for people to see."""
        for name in sorted({queue.broker_name for queue in places}):
            some = [queue for queue in places if queue.broker_name == name]
            try:
                for address, asked in self._by_address(some).items():
                    self._ask(
                        address,
                        asked,
                        RequestCode.UPDATE_CONSUMER_OFFSET,
                        lambda queue: UpdateConsumerOffsetHeader(
                            group, queue.topic, queue.queue_id, places[queue]
                        ),
                    )
            except (RemotingError, ClientError) as error:
                log.warning("progress of group not shown group=%s broker=%s error=%s", group, name, error)

    def close(self) -> None:
        self._driver.close()


def known_topics(driver: BlockingDriver, nameservers: NameServers, timeout_s: float) -> set[str]:
    """All that a name server knows, the system's too."""
    command = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    reply: Command = driver.run(ask_nameservers(nameservers, command, timeout_s))
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, "name server, asked for all topics,")
    return set(decode_topic_list(reply.body).topics)
