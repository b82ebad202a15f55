"""The idempotent producer's sends on asyncio: one sequence of numbers per queue, sent in that order.

While all goes well many are in flight to a queue: the broker takes them in the order they leave. When one is not
answered, nothing more leaves until those under way have ended; then they are settled one after the other.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from rocketeer.client.aio.drivers import PlanRunner
from rocketeer.client.core.attempts import PAUSE_S, PAUSE_S_MAX, check_timeout
from rocketeer.client.core.encoding import Outgoing
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.queue_sequence import (
    PendingSend,
    QueueSequence,
    dedup_id,
    new_producer_id,
    with_producer_id,
)
from rocketeer.client.core.selectors import QueueById, java_hash_code, next_queue
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.core.transient import backoffs
from rocketeer.client.plans.idempotent import IdempotentSends, NotSent
from rocketeer.client.plans.send import Choose, Sender
from rocketeer.errors import BrokerRefused, ClientError, SendTimeout
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import ResponseCode

IN_FLIGHT_MAX: Final = 128
"""Sends in flight to one queue; far fewer than the numbers a broker remembers."""


class QueueSends:
    """The sends of one queue: its sequence and those in flight."""

    def __init__(self, sequence: QueueSequence, in_flight_max: int) -> None:
        self.sequence = sequence
        self.places = asyncio.Semaphore(in_flight_max)
        self._turn = asyncio.Lock()
        self._in_flight = 0
        self._none_in_flight = asyncio.Event()

    async def send(
        self, sends: IdempotentSends, run: PlanRunner, outgoing: Outgoing, timeout_s: float
    ) -> SendResult:
        """Raises TimeoutError when it did not come to its turn."""
        sequence = self.sequence
        async with self._turn_of(timeout_s):  # in the order they came
            if sequence.next is None or sequence.recovering:
                await self._wait_none_in_flight(timeout_s)
                await run(sends.learn_next(sequence))
                await run(sends.settle_all(sequence))
            pending = sequence.take(outgoing)
            self._in_flight += 1
        try:
            await run(sends.attempt_once(sequence, pending))
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._none_in_flight.set()
        if not pending.settled:
            async with self._turn_of(timeout_s):
                await self._wait_none_in_flight(timeout_s)
                await run(sends.settle_up_to(sequence, pending))
        return _outcome(pending)

    @contextlib.asynccontextmanager
    async def _turn_of(self, timeout_s: float) -> AsyncIterator[None]:
        async with asyncio.timeout(timeout_s):
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    async def _wait_none_in_flight(self, timeout_s: float) -> None:
        """Wait until no send is in flight; nobody else can begin one while the caller has the turn."""
        async with asyncio.timeout(timeout_s):
            while self._in_flight:
                self._none_in_flight.clear()
                await self._none_in_flight.wait()


def _outcome(pending: PendingSend) -> SendResult:
    if pending.result is not None:
        return pending.result
    assert pending.error is not None, "settled"
    raise pending.error


def _late(topic: str, queue: MessageQueue) -> SendTimeout:
    return SendTimeout(topic, (), f"those before it in {queue} are unanswered")


class IdempotentSender:
    """All queues this producer has sent to."""

    def __init__(self, sender: Sender, run_plan: PlanRunner, producer_id: str | None) -> None:
        self._sender = sender
        self._run = run_plan
        self._clock = sender.clock
        self._renewable = producer_id is None
        self.producer_id = producer_id or new_producer_id()
        self._by_queue: dict[MessageQueue, QueueSends] = {}

    async def send(self, outgoing: Outgoing, choose: Choose | None, timeout_s: float) -> SendResult:
        """Store it once; raises what `Producer.send` does."""
        check_timeout(timeout_s)
        deadline_s = self._clock.monotonic_s() + timeout_s
        own_id = dedup_id(outgoing)
        failed_broker: str | None = None
        pauses_s = backoffs(PAUSE_S, PAUSE_S_MAX)
        while True:
            queue = await self._queue(outgoing.topic, choose, own_id, failed_broker, timeout_s, deadline_s)
            try:
                if own_id is not None:
                    sends = IdempotentSends(self._sender, queue, deadline_s)
                    return await self._run(sends.by_id(with_producer_id(outgoing, self.producer_id)))
                return await self._send_numbered(queue, outgoing, deadline_s)
            except NotSent as error:
                pause_s = next(pauses_s)
                late = self._clock.monotonic_s() + pause_s >= deadline_s
                if late or self._is_no_queue(queue, error.cause):
                    raise error.cause from None
                failed_broker = queue.broker_name
                why = error.cause
                known = self._sender.routes.get(queue.topic)
                if known is not None and known.guessed:  # it may be there by now, with fewer queues
                    self._sender.routes.suspect(queue.topic)
            await asyncio.sleep(pause_s)
            if self._clock.monotonic_s() >= deadline_s:  # a busy machine sleeps longer
                raise why

    async def next_sequence(self, queue: MessageQueue, timeout_s: float) -> int:
        """How many messages of this producer the queue's broker has, so: the number of the next one."""
        sends = IdempotentSends(self._sender, queue, self._clock.monotonic_s() + timeout_s)
        try:
            return await self._run(sends.next_sequence(self.producer_id))
        except NotSent as error:
            raise error.cause from None

    async def _send_numbered(self, queue: MessageQueue, outgoing: Outgoing, deadline_s: float) -> SendResult:
        queue_sends = self._by_queue.get(queue)
        if queue_sends is None:
            sequence = QueueSequence(self.producer_id, self._renewable)
            # Under a name the user gave, numbers cannot be given anew: one at a time.
            queue_sends = self._by_queue[queue] = QueueSends(
                sequence, IN_FLIGHT_MAX if self._renewable else 1
            )
        sends = IdempotentSends(self._sender, queue, deadline_s)
        try:
            async with asyncio.timeout(deadline_s - self._clock.monotonic_s()):
                await queue_sends.places.acquire()
        except TimeoutError:
            raise _late(outgoing.topic, queue) from None
        try:
            return await queue_sends.send(sends, self._run, outgoing, deadline_s - self._clock.monotonic_s())
        except TimeoutError:
            raise _late(outgoing.topic, queue) from None
        finally:
            queue_sends.places.release()

    def _is_no_queue(self, queue: MessageQueue, why: Exception) -> bool:
        """Refused, and the topic has no queue of this number: trying again would not help."""
        known = self._sender.routes.get(queue.topic)
        refused = isinstance(why, BrokerRefused) and why.code == ResponseCode.SYSTEM_ERROR
        queues = None if known is None else known.write_queues.get(queue.broker_name)
        return refused and queues is not None and queue.queue_id >= queues

    async def _queue(
        self,
        topic: str,
        choose: Choose | None,
        own_id: str | None,
        failed_broker: str | None,
        timeout_s: float,
        deadline_s: float,
    ) -> MessageQueue:
        known = self._sender.routes.get(topic)
        if known is None or not known.publish:
            route = self._sender.route_for_send(topic, SendMode.SYNC, timeout_s, deadline_s)
            known = await self._run(route)
        if choose is not None:
            chosen = self._sender.chosen(topic, known, choose)
            if chosen.queue_id < 0:
                raise ClientError(
                    f"queue {chosen.queue_id} leaves the choice to the broker: an idempotent producer sends a message"
                    " to one queue until it is answered, so name that or none"
                )
            self._sender.check_broker(chosen, known)
            return chosen
        if own_id is not None:  # whoever sends it again, from wherever, asks the same broker
            return QueueById(known.publish).choose(java_hash_code(own_id))
        return next_queue(known, failed_broker, self._sender.faults)
