"""Requests in, stored messages out: many on the way at a time, each tried again until stored or out of time.

`submit` is called by the task's thread and waits while too many bytes are on the way; all else runs on the client's
loop. The first failure stops the task: what was submitted after it is not sent.
"""

import asyncio
import logging
import threading
from dataclasses import dataclass
from typing import Final

from rocketeer.client.core.selectors import next_queue
from rocketeer.client.core.transient import UNREACHABLE, passes
from rocketeer.client.plans.effects import Call, Plan
from rocketeer.client.plans.replies import refused
from rocketeer.client.plans.send import STORED, SendTerms, send_request
from rocketeer.errors import (
    BrokerRefused,
    ClientError,
    NoBroker,
    NoRoute,
    RocketeerError,
)
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.spark.outages import Outage
from rocketeer.spark.sink.client import FIRST_PAUSE_S, SinkClient
from rocketeer.spark.sink.options import SinkOptions
from rocketeer.spark.sink.requests import Request
from rocketeer.spark.sink.rows import BadRow, row_label

log = logging.getLogger(__name__)

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_ILLEGAL: Final = int(ResponseCode.MESSAGE_ILLEGAL)
_WAIT: Final = "WAIT\x01true"
SAID_EVERY_S: Final = 1.0


class WriteFailed(ClientError):
    """A request that was not stored; the text names its first row and what the broker or the network said."""


@dataclass
class SendCounts:
    """How much one task stored."""

    rows: int = 0
    requests: int = 0
    body_bytes: int = 0
    retried: int = 0
    less_durable: int = 0
    """Stored, but the broker's disk or slave had not confirmed it in time."""


class SinkSender:
    """Sends the requests of one Spark task and counts what was stored."""

    def __init__(self, client: SinkClient, options: SinkOptions, partition: int) -> None:
        self._client = client
        self._options = options
        self._partition = partition
        self._timeout_s = options.send_timeout_ms / 1000
        self._terms = SendTerms(options.producer_group)
        self._room = threading.Condition()
        self._on_the_way = 0
        self._failure: BaseException | None = None
        self._turns: dict[MessageQueue, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._said_s: dict[str | None, float] = {}
        self.counts = SendCounts()

    # --- the task's thread -------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """Have it sent; waits for room, and raises what went wrong with an earlier one."""
        size = len(request.body)
        limit = self._options.in_flight_bytes
        with self._room:
            # A request larger than the limit goes when it has the way for itself.
            self._room.wait_for(
                lambda: self._failure is not None or not self._on_the_way or self._on_the_way + size <= limit
            )
            self._raise_failure()
            self._on_the_way += size
        self._client.thread.post(lambda: self._begin(request))

    def finish(self) -> SendCounts:
        """Wait until everything submitted is stored; raises what went wrong."""
        with self._room:
            self._room.wait_for(lambda: self._failure is not None or not self._on_the_way)
            self._raise_failure()
        return self.counts

    def abandon(self) -> None:
        """Send nothing more; what is on the way may still be stored."""
        with self._room:
            if self._failure is None:
                self._failure = WriteFailed("the task ended before its rows were sent")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- the loop ----------------------------------------------------------------------------

    def _begin(self, request: Request) -> None:
        task = asyncio.get_running_loop().create_task(self._deliver(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, request: Request) -> None:
        size = len(request.body)
        failure: BaseException | None = None
        try:
            if request.ordered:
                assert request.queue is not None
                # asyncio's lock is fair, and deliveries begin in the order of submission.
                async with self._turns.setdefault(request.queue, asyncio.Lock()):
                    await self._store(request)
            else:
                await self._store(request)
        except BaseException as error:
            failure = error
        with self._room:
            self._on_the_way -= size
            if failure is not None and self._failure is None:
                self._failure = failure
            self._room.notify_all()

    async def _store(self, request: Request) -> None:
        """Send it until it is stored. A batch that is refused as a whole is halved until the bad row is alone."""
        queue = request.queue
        failed_broker: str | None = None
        outage = Outage(self._options.delivery_timeout_s, FIRST_PAUSE_S)
        while True:
            if self._failure is not None:
                return
            try:
                if request.queue is None:
                    queue = await self._any_queue(request.topic, failed_broker)
                assert queue is not None
                await self._client.driver.run(self._ask(request, queue))
                return
            except (*UNREACHABLE, NoRoute, BrokerRefused) as error:
                if isinstance(error, BrokerRefused) and error.code == _ILLEGAL and len(request.rows) > 1:
                    break
                pause_s = outage.pause_s() if passes(error) else None
                if pause_s is None:
                    raise self._named(request, error) from error
                failed_broker = queue.broker_name if queue is not None else None
                self.counts.retried += 1
                self._say_waiting(failed_broker, request.topic, outage, pause_s, error)
            await asyncio.sleep(pause_s)
            await self._refresh(request.topic)
        for half in request.halves():
            await self._store(half)

    def _say_waiting(
        self, broker: str | None, topic: str, outage: Outage, pause_s: float, error: Exception
    ) -> None:
        """Once a second for all requests that wait for a broker: there may be hundreds."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._said_s.get(broker, float("-inf")) < SAID_EVERY_S:
            return
        self._said_s[broker] = now_s
        log.warning(
            "send waits for broker=%s topic=%s tries=%d waited_s=%.1f of_s=%g next_s=%.1f error=%s",
            broker,
            topic,
            outage.tries,
            outage.seconds,
            self._options.delivery_timeout_s,
            pause_s,
            error,
        )

    async def _any_queue(self, topic: str, failed_broker: str | None) -> MessageQueue:
        known = await self._client.route(topic)
        if not known.publish:
            raise NoBroker(topic, None, "has no queue that can be written to")
        return next_queue(known, failed_broker)

    def _ask(self, request: Request, queue: MessageQueue) -> Plan[None]:
        address = self._client.routes.master_for(request.topic, queue.broker_name)
        reply: Command = yield Call(address, self._command(request, queue), self._timeout_s)
        if reply.code not in STORED:
            raise refused(reply, f"{queue.broker_name} ({address})", queue)
        counts = self.counts
        counts.rows += len(request.rows)
        counts.requests += 1
        counts.body_bytes += len(request.body)
        if reply.code != _SUCCESS:
            counts.less_durable += len(request.rows)

    def _command(self, request: Request, queue: MessageQueue) -> Command:
        properties = _WAIT if request.batch else request.properties.decode()
        now_ms = self._client.clock.now_ms()
        return send_request(
            self._terms, queue, request.body, properties, now_ms, request.sys_flag, request.batch
        )

    async def _refresh(self, topic: str) -> None:
        try:
            await self._client.route(topic, fresh=True)
        except RocketeerError as error:
            log.warning("route not refreshed topic=%s error=%s", topic, error)

    def _named(self, request: Request, error: Exception) -> RocketeerError:
        label = row_label(self._partition, request.rows[0], keys=request.keys())
        more = f" and {len(request.rows) - 1} more rows" if len(request.rows) > 1 else ""
        if isinstance(error, BrokerRefused) and error.code == _ILLEGAL:
            return BadRow(f"{label} was refused: {error}")
        return WriteFailed(f"{label}{more} not stored in topic {request.topic!r}: {error}")
