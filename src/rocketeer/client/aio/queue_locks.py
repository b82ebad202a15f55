"""The brokers' locks of ordered queues: who has one consumes the queue, until it is given back or runs out."""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.plans.brokers import Cluster, broker_of
from rocketeer.client.plans.groups import lock_queues, unlock_queues
from rocketeer.errors import RocketeerError
from rocketeer.model.queue import MessageQueue

log = logging.getLogger(__name__)

LOCK_CALL_S: Final = 1.0


class QueueLocks:
    """Asks each broker once for all queues it has."""

    def __init__(self, config: ConsumerConfig, instance: ClientInstance, cluster: Cluster) -> None:
        self._instance = instance
        self._cluster = cluster
        self._group = config.full_group
        self._expire_s = config.lock_expire_s

    async def take(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        """Until when each lock is ours, 0 if it is somebody else's; queues whose broker is silent are left out."""
        answers: dict[MessageQueue, float] = {}
        for address, theirs in (await self._by_address(queues)).items():
            # Counted from before the question: the broker's own time is longer in any case.
            until_s = time.monotonic() + self._expire_s
            plan = lock_queues(address, self._group, self._instance.client_id, theirs, LOCK_CALL_S)
            try:
                locked = await self._instance.run(plan)
            except RocketeerError as error:
                log.warning("locks not taken group=%s broker=%s reason=%s", self._group, address, error)
                continue
            answers.update({queue: until_s if queue in locked else 0.0 for queue in theirs})
        return answers

    async def give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Returns when the next member can have them; a broker that does not answer lets them run out."""
        for address, theirs in (await self._by_address(queues)).items():
            plan = unlock_queues(address, self._group, self._instance.client_id, theirs, LOCK_CALL_S)
            try:
                await self._instance.run(plan)
            except RocketeerError as error:
                log.warning("locks not given back group=%s broker=%s reason=%s", self._group, address, error)

    async def _by_address(self, queues: Iterable[MessageQueue]) -> dict[str, set[MessageQueue]]:
        found: defaultdict[str, set[MessageQueue]] = defaultdict(set)
        for queue in queues:
            try:
                where = await self._instance.run(broker_of(queue, self._cluster))
            except RocketeerError as error:
                log.warning("no broker for a lock group=%s queue=%s reason=%s", self._group, queue, error)
                continue
            found[where.address].add(queue)
        return found
