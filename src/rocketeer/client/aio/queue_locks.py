"""The brokers' locks of ordered queues: who has one consumes the queue, until it is given back or runs out."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.plans.brokers import ClusterRoutes, broker_of
from rocketeer.client.plans.groups import lock_queues, unlock_queues
from rocketeer.errors import RocketeerError
from rocketeer.model.queue import MessageQueue

log = logging.getLogger(__name__)

LOCK_CALL_S: Final = 1.0


class QueueLocks:
    """Asks each broker once for all queues it has.

    Invariant: one question at a time, and none is left half asked. A lock that a broker grants after it was given
    back would stay with a member that does not want it, and keep the others from the queue until it runs out.
    """

    def __init__(self, config: ConsumerConfig, instance: ClientInstance, cluster: ClusterRoutes) -> None:
        self._instance = instance
        self._cluster = cluster
        self._group = config.full_group
        self._expire_s = config.lock_expire_s
        self._asking = asyncio.Lock()
        self._perhaps_ours: set[MessageQueue] = set()
        """Asked for and not refused, whether or not anybody waited for the answer."""
        self._warned: set[object] = set()
        """Brokers and queues in trouble that was told of: they are asked often meanwhile."""

    async def take(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        """Until when each lock is ours, 0 if it is somebody else's; queues whose broker is silent are left out.

        A generator is looked at when it is its turn: what was let go meanwhile is not asked for.
        """
        await self._asking.acquire()
        return await asyncio.shield(asyncio.create_task(self._take(queues)))

    async def _take(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        """Ask the brokers for locks; runs to its end when the caller is cancelled, only then the next one starts."""
        answers: dict[MessageQueue, float] = {}
        try:
            for address, theirs in (await self._by_address(queues)).items():
                # Counted from before the question: the broker's own time is longer in any case.
                until_s = time.monotonic() + self._expire_s
                plan = lock_queues(address, self._group, self._instance.client_id, theirs, LOCK_CALL_S)
                self._perhaps_ours |= theirs
                try:
                    locked = await self._instance.run(plan)
                except RocketeerError as error:
                    self._warn_once(address, "locks not taken group=%s broker=%s reason=%s", error)
                    self._suspect(theirs)
                    continue
                self._warned.discard(address)
                self._perhaps_ours -= theirs - set(locked)
                answers.update({queue: until_s if queue in locked else 0.0 for queue in theirs})
        finally:
            self._asking.release()
        return answers

    async def give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Returns when the next member can have them; a broker that does not answer lets them run out."""
        async with self._asking:
            await self._give_back(queues)

    async def give_back_all(self, *, but: Collection[MessageQueue]) -> None:
        """Also those that were granted when nobody waited for the answer any more."""
        async with self._asking:
            await self._give_back(self._perhaps_ours.difference(but))

    async def _give_back(self, queues: Iterable[MessageQueue]) -> None:
        for address, theirs in (await self._by_address(queues)).items():
            plan = unlock_queues(address, self._group, self._instance.client_id, theirs, LOCK_CALL_S)
            self._perhaps_ours -= theirs
            try:
                await self._instance.run(plan)
            except RocketeerError as error:
                log.warning("locks not given back group=%s broker=%s reason=%s", self._group, address, error)
                self._suspect(theirs)

    async def _by_address(self, queues: Iterable[MessageQueue]) -> dict[str, set[MessageQueue]]:
        found: defaultdict[str, set[MessageQueue]] = defaultdict(set)
        for queue in queues:
            try:
                where = await self._instance.run(broker_of(queue, self._cluster))
            except RocketeerError as error:
                self._warn_once(queue, "no broker for a lock group=%s queue=%s reason=%s", error)
                continue
            self._warned.discard(queue)
            found[where.address].add(queue)
        return found

    def _suspect(self, queues: Iterable[MessageQueue]) -> None:
        """In a group of brokers only the leader has locks to give, and another one may lead by now."""
        for topic in {queue.topic for queue in queues}:
            self._cluster.routes.suspect(topic)

    def _warn_once(self, of: object, text: str, error: RocketeerError) -> None:
        log.log(logging.DEBUG if of in self._warned else logging.WARNING, text, self._group, of, error)
        self._warned.add(of)
