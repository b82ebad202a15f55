"""The executor's side of a wire read: pulls a range of a queue from its broker, replies in order, in large pieces.

Our broker answers with megabytes: while one reply arrives, the next request is already under way (its offset stands
in the head of the reply). A Java broker answers with 32 messages at most: then several such chains run side by side,
each over 32 offsets.
"""

import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.core.transient import passes
from rocketeer.client.discovery import discover
from rocketeer.client.plans.pull import BULK_FIELD, reply_offsets
from rocketeer.client.plans.routes import find_route
from rocketeer.client.sync import bulk_connection
from rocketeer.client.sync.bulk_connection import BulkConnection
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.errors import BrokerRefused, RemotingError, RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.spark.outages import Outage
from rocketeer.spark.source.losses import DataLost, Loss
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.pulls import CAPPED_COUNT, PullTerms, addresses_to_read

log = logging.getLogger(__name__)

RecordBytes: TypeAlias = bytearray | memoryview
CHAINS: Final = 16
"""How many capped pulls are under way at a time."""
BEHIND_S_MAX: Final = 10.0
"""Longest wait for a master that does not have what planning saw; then it has lost it."""
GATHER_BYTES: Final = 4 << 20
"""Small replies are put together to about this size before they are decoded."""


class _NotThere(RemotingError):
    """The broker does not have the messages: a slave that lags gets them, and only a master can have lost them."""

    def __init__(self, loss: Loss, address: str) -> None:
        queue = loss.queue
        super().__init__(
            f"{address} does not have messages [{loss.begin}, {loss.end}) of queue {queue.queue_id} of topic "
            f"{queue.topic!r} on {queue.broker_name!r}: {loss.why}"
        )
        self.loss = loss


@dataclass(slots=True)
class _Chain:
    """One sub-range being pulled: requests follow each other, each from where the reply before ended."""

    at: QueueOffset
    end: QueueOffset
    opaque: int = 0
    done: bool = False


class RangeFetch:
    """Yields bodies with the messages of a range. One per range and attempt; lives in the task's thread."""

    def __init__(
        self, terms: PullTerms, wanted: QueueRange, connection: BulkConnection, *, is_master: bool
    ) -> None:
        self._terms = terms
        self._wanted = wanted
        self._connection = connection
        self._is_master = is_master
        """Whether that is known of the broker: then what it does not have is lost."""
        self.reached = wanted.begin
        """Offset below which everything was yielded."""
        self._large = True
        """Until a reply shows that the broker knows nothing of it."""

    def bodies(self) -> Iterator[RecordBytes]:
        """In order; each is gone when the next one is asked for.

        Raises RemotingError, BrokerRefused, DataLost; `reached` tells where to go on.
        """
        chain = _Chain(self.reached, self._wanted.end)
        self._ask(chain)
        while not chain.done:
            body = self._receive(chain)
            if not self._large:
                yield from self._capped(chain, body)
                return
            self.reached = chain.at
            if body:
                yield body

    def _capped(self, first: _Chain, body: memoryview) -> Iterator[RecordBytes]:
        """Go on with a broker that gives 32 at a time; the first reply has come already, its chain is under way."""
        end = self._wanted.end
        gathered = bytearray(body)
        if not first.done:
            self._receive_and_drop(first)
        at = first.at
        # With a filter nobody knows beforehand how far 32 messages reach: one chain then.
        step = end - at if self._terms.is_filtered else CAPPED_COUNT
        chains: deque[tuple[_Chain, list[bytearray]]] = deque()
        by_opaque: dict[int, tuple[_Chain, list[bytearray]]] = {}
        while at < end or chains:
            while at < end and len(chains) < CHAINS:
                chain = _Chain(at, QueueOffset(min(at + step, end)))
                pair: tuple[_Chain, list[bytearray]] = (chain, [])
                self._ask(chain)
                by_opaque[chain.opaque] = pair
                chains.append(pair)
                at = chain.end
            head, came = self._connection.receive(self._terms.timeout_s)
            pair = by_opaque.pop(head.opaque)
            chain, parts = pair
            self._next(chain, head)
            if came:
                parts.append(came)
            if not chain.done:
                by_opaque[chain.opaque] = pair
            while chains:
                chain, parts = chains[0]
                for part in parts:
                    gathered += part
                parts.clear()
                if not chain.done:
                    break
                chains.popleft()
            if len(gathered) >= GATHER_BYTES:
                self.reached = chains[0][0].at if chains else at
                yield gathered
                gathered = bytearray()
        self.reached = end
        if gathered:
            yield gathered

    def _receive_and_drop(self, chain: _Chain) -> None:
        """The reply that was asked for before the broker turned out to be capped: it would only be in the way."""
        opaque = chain.opaque
        while True:
            head, _ = self._connection.receive(self._terms.timeout_s)
            if head.opaque == opaque:
                return

    def _ask(self, chain: _Chain) -> None:
        large = self._terms.bulk_bytes if self._large else None
        command = self._terms.request(self._wanted.queue, chain.at, chain.end - chain.at, bulk_bytes=large)
        chain.opaque = command.opaque
        self._connection.send(command, self._terms.timeout_s)

    def _receive(self, chain: _Chain) -> memoryview:
        def on_head(head: Command) -> None:
            if head.opaque == chain.opaque:
                self._next(chain, head)

        while True:
            opaque = chain.opaque
            head, body = self._connection.receive_large(self._terms.timeout_s, on_head)
            if head.opaque == opaque:
                return body

    def _next(self, chain: _Chain, head: Command) -> None:
        """Move the chain on by a reply's head, and ask for what follows."""
        queue = self._wanted.queue
        after, low, high = reply_offsets(head, queue, self._connection.address)
        if head.code == ResponseCode.SUCCESS and BULK_FIELD not in head.ext:
            self._large = False
        if head.code == ResponseCode.PULL_OFFSET_MOVED or after <= chain.at:
            after = self._missing(chain, low, high)
        chain.at = min(after, chain.end)
        if chain.at >= chain.end:
            chain.done = True
        else:
            self._ask(chain)

    def _missing(self, chain: _Chain, low: QueueOffset, high: QueueOffset) -> QueueOffset:
        """Where to go on when the broker has no message at the chain's offset."""
        queue = self._wanted.queue
        if high <= chain.at:
            loss = Loss(queue, chain.at, self._wanted.end, f"the queue ends at {high}")
            raise _NotThere(loss, self._connection.address)
        after = max(low, QueueOffset(chain.at + 1))
        why = f"the oldest one still there is {low} (retention)" if low > chain.at else "it is not given out"
        loss = Loss(queue, chain.at, min(after, chain.end), why)
        if not self._is_master:
            raise _NotThere(loss, self._connection.address)
        if self._terms.fail_on_data_loss:
            raise DataLost([loss])
        log.warning("data lost: %s", loss)
        return after


def fetch_range(terms: PullTerms, wanted: QueueRange, address: str) -> Iterator[RecordBytes]:
    """The bodies of all replies; each message comes once. A broker that is away is waited for.

    A body is to be done with before the next one is asked for: its memory is used again.
    """
    outage = Outage(terms.outage_s, terms.first_pause_s)
    is_master = False  # not known before somebody says no: then it is looked up
    while wanted.records > 0:
        reached = wanted.begin
        try:
            connection = bulk_connection.take(address, terms.protection, terms.protection.security)
            fetch = RangeFetch(terms, wanted, connection, is_master=is_master)
            try:
                for body in fetch.bodies():
                    reached = fetch.reached
                    yield body
                    outage.over()
            except GeneratorExit:
                connection.close()
                raise
            except BaseException:
                reached = fetch.reached
                connection.close()
                raise
            bulk_connection.give_back(connection)
            return
        except (RemotingError, BrokerRefused) as error:
            bulk_connection.forget(address)
            wanted = QueueRange(wanted.queue, reached, wanted.end)
            if not is_master and isinstance(error, _NotThere | BrokerRefused):
                master = _master_now(terms, wanted.queue)
                is_master = master is not None
                if master is not None and (master != address or isinstance(error, _NotThere)):
                    address = master  # a slave may lag, know no new queue, keep less: nobody waits for that
                    continue
            pause_s = _pause_s(outage, error, is_master)
            if pause_s is None:
                if not (is_master and isinstance(error, _NotThere)):
                    raise
                if terms.fail_on_data_loss:
                    raise DataLost([error.loss]) from None
                log.warning("data lost: %s", error.loss)
                return
            log.warning(
                "fetch waits for broker=%s address=%s topic=%s queue=%d reached=%d tries=%d waited_s=%.1f "
                "fetch_timeout_s=%g next_s=%.1f error=%s",
                wanted.queue.broker_name,
                address,
                wanted.queue.topic,
                wanted.queue.queue_id,
                reached,
                outage.tries,
                outage.seconds,
                terms.outage_s,
                pause_s,
                error,
            )
            time.sleep(pause_s)
            address = _address_now(terms, wanted.queue, address, outage.tries)
            is_master = False


def _pause_s(outage: Outage, error: RemotingError | BrokerRefused, is_master: bool) -> float | None:
    """None: trying again is of no use, or the time is over."""
    if isinstance(error, _NotThere):
        return outage.pause_s(BEHIND_S_MAX if is_master else None)
    return outage.pause_s() if passes(error) else None


def _master_now(terms: PullTerms, queue: MessageQueue) -> str | None:
    """The address of the queue's master; None if there is none at the moment, or nobody tells."""
    routes = _routes_now(terms, queue)
    return None if routes is None else routes.master(queue.broker_name)


def _address_now(terms: PullTerms, queue: MessageQueue, before: str, tries: int) -> str:
    """Where to read after a failure: the broker may have come back elsewhere, another may lead its group, and a slave
    that does not answer is not the only one."""
    routes = _routes_now(terms, queue)
    found = [] if routes is None else addresses_to_read(routes, queue, terms.read_from)
    return found[tries % len(found)] if found else before


def _routes_now(terms: PullTerms, queue: MessageQueue) -> RouteCache | None:
    driver = BlockingDriver(terms.protection.security())
    routes = RouteCache()
    try:
        nameservers = NameServers(discover(terms.nameserver))
        driver.run(find_route(queue.topic, routes, nameservers, terms.timeout_s))
    except RocketeerError:
        return None
    finally:
        driver.close()
    return routes
