"""The idempotent producer's sends on asyncio: a lane for each queue, its messages leave in order of their numbers.

While all goes well many are under way in a lane: the broker takes them in the order they leave. When one is not
answered, nothing more leaves until those under way have ended; then they are settled one after the other.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, Protocol, TypeVar

from rocketeer.client.core.encoding import Outgoing
from rocketeer.client.core.lanes import Lane, Ticket, dedup_id, identified, new_producer_id
from rocketeer.client.core.selectors import java_hash_code, next_queue
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.idempotent import PAUSE_S, PAUSE_S_MAX, IdempotentSends, NotSent
from rocketeer.client.plans.send import Choose, Sender
from rocketeer.errors import SendTimeout
from rocketeer.model.queue import MessageQueue

T = TypeVar("T")

FLYING_MAX: Final = 128
"""Sends under way in one lane; far less than the numbers a broker remembers."""


class PlanRunner(Protocol):
    async def __call__(self, plan: Plan[T]) -> T: ...


class Track:
    """A lane, and who is under way in it."""

    def __init__(self, lane: Lane, flying_max: int) -> None:
        self.lane = lane
        self.places = asyncio.Semaphore(flying_max)
        self._turn = asyncio.Lock()
        self._flying = 0
        self._landed = asyncio.Event()

    async def send(
        self, sends: IdempotentSends, run: PlanRunner, outgoing: Outgoing, timeout_s: float
    ) -> SendResult:
        """Raises TimeoutError when it did not come to its turn."""
        lane = self.lane
        async with self._turn_of(timeout_s):  # in the order they came
            if lane.next is None or lane.recovering:
                await self._all_landed(timeout_s)
                await run(sends.begin(lane))
                await run(sends.settle_all(lane))
            ticket = lane.take(outgoing)
            self._flying += 1
        try:
            await run(sends.fly(lane, ticket))
        finally:
            self._flying -= 1
            if not self._flying:
                self._landed.set()
        if not ticket.settled:
            async with self._turn_of(timeout_s):
                await self._all_landed(timeout_s)
                await run(sends.settle_up_to(lane, ticket))
        return _outcome(ticket)

    @contextlib.asynccontextmanager
    async def _turn_of(self, timeout_s: float) -> AsyncIterator[None]:
        async with asyncio.timeout(timeout_s):
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    async def _all_landed(self, timeout_s: float) -> None:
        """Whoever has the turn waits so until nobody is under way: nobody else can leave meanwhile."""
        async with asyncio.timeout(timeout_s):
            while self._flying:
                self._landed.clear()
                await self._landed.wait()


def _outcome(ticket: Ticket) -> SendResult:
    if ticket.result is not None:
        return ticket.result
    assert ticket.error is not None, "settled"
    raise ticket.error


def _late(topic: str, queue: MessageQueue) -> SendTimeout:
    return SendTimeout(topic, (), f"those before it in {queue} are unanswered")


class Lanes:
    """All queues this producer has sent to."""

    def __init__(self, sender: Sender, run_plan: PlanRunner, producer_id: str | None) -> None:
        self._sender = sender
        self._run = run_plan
        self._clock = sender.clock
        self._renewable = producer_id is None
        self.producer_id = producer_id or new_producer_id()
        self._tracks: dict[MessageQueue, Track] = {}

    async def send(self, outgoing: Outgoing, choose: Choose | None, timeout_s: float) -> SendResult:
        """Store it once; raises what `Producer.send` does."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        own_id = dedup_id(outgoing)
        failed_broker: str | None = None
        pause_s = PAUSE_S
        while True:
            queue = await self._queue(outgoing.topic, choose, own_id, failed_broker, timeout_s)
            try:
                if own_id is not None:
                    sends = IdempotentSends(self._sender, queue, deadline_s)
                    return await self._run(sends.by_id(identified(outgoing, self.producer_id)))
                return await self._in_lane(queue, outgoing, deadline_s)
            except NotSent as error:
                if self._clock.monotonic_s() + pause_s >= deadline_s:
                    raise error.cause from None
                failed_broker = queue.broker_name
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def next_sequence(self, queue: MessageQueue, timeout_s: float) -> int:
        """How many messages of this producer the queue's broker has, so: the number of the next one."""
        sends = IdempotentSends(self._sender, queue, self._clock.monotonic_s() + timeout_s)
        try:
            return await self._run(sends.stands_at(self.producer_id))
        except NotSent as error:
            raise error.cause from None

    async def _in_lane(self, queue: MessageQueue, outgoing: Outgoing, deadline_s: float) -> SendResult:
        track = self._tracks.get(queue)
        if track is None:
            lane = Lane(self.producer_id, self._renewable)
            # Under a name the user gave, numbers cannot be given anew: one at a time.
            track = self._tracks[queue] = Track(lane, FLYING_MAX if self._renewable else 1)
        sends = IdempotentSends(self._sender, queue, deadline_s)
        try:
            async with asyncio.timeout(deadline_s - self._clock.monotonic_s()):
                await track.places.acquire()
        except TimeoutError:
            raise _late(outgoing.topic, queue) from None
        try:
            return await track.send(sends, self._run, outgoing, deadline_s - self._clock.monotonic_s())
        except TimeoutError:
            raise _late(outgoing.topic, queue) from None
        finally:
            track.places.release()

    async def _queue(
        self,
        topic: str,
        choose: Choose | None,
        own_id: str | None,
        failed_broker: str | None,
        timeout_s: float,
    ) -> MessageQueue:
        known = self._sender.routes.get(topic)
        if known is None or not known.publish:
            known = await self._run(self._sender.publish_route(topic, timeout_s))
        if choose is not None:
            return self._sender.chosen(topic, known, choose)
        if own_id is not None:  # whoever sends it again, from wherever, asks the same broker
            return known.publish[java_hash_code(own_id) % len(known.publish)]
        return next_queue(known, failed_broker, self._sender.faults)
