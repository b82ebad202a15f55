"""Queue locks of orderly consumers: take or renew (41), give back (42)."""

from collections.abc import Awaitable, Iterator, Sequence

from rocketeer.broker.locks import STEP_QUEUES, QueueLockTable
from rocketeer.clock import Clock
from rocketeer.config import BrokerLimits
from rocketeer.errors import RequestRefused
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.locks import LockParts, encode_locked_queues, opening_lock_request
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.remoting.limits import busy_limit, over_limit
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import run_sliced
from rocketeer.steps import Steps

NAME_CHARS_MAX = 512
"""Longest name of a client, group, topic or broker: a lock keeps them."""


def lock_time_ms(clock: Clock) -> int:
    """What locks age by: a clock that is set forward must not take queues away from their owners."""
    return int(clock.monotonic_s() * 1000)


def lock_handlers(
    locks: QueueLockTable, clock: Clock, limits: BrokerLimits | None = None
) -> dict[int, Handler]:
    allowed = limits or BrokerLimits()

    def lock(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return run_sliced(lock_steps(command))

    def unlock(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return run_sliced(unlock_steps(command))

    def lock_steps(command: Command) -> Steps[Command]:
        wish = yield from opening(command)
        if len(locks) + wish.queue_count > allowed.queue_locks:
            raise busy_limit("locks of queues", "limitQueueLocks", allowed.queue_locks)
        owned: list[MessageQueue] = []
        for queues in portions(wish):
            owned += locks.lock(wish.consumer_group, wish.client_id, queues, lock_time_ms(clock))
            yield
        return reply(command, body=encode_locked_queues(owned))

    def unlock_steps(command: Command) -> Steps[Command]:
        wish = yield from opening(command)
        for queues in portions(wish):
            locks.unlock(wish.consumer_group, wish.client_id, queues)
            yield
        return reply(command)

    def opening(command: Command) -> Steps[LockParts]:
        wish = yield from opening_lock_request(command.body)
        if wish.queue_count > allowed.request_queues:
            raise over_limit(
                f"{wish.queue_count} queues in one request", "limitRequestQueues", allowed.request_queues
            )
        names = max(len(wish.consumer_group), len(wish.client_id), wish.longest_name)
        if names > NAME_CHARS_MAX:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"a name in a request for locks has {names} characters, at most {NAME_CHARS_MAX} are kept",
            )
        return wish

    def portions(wish: LockParts) -> Iterator[Sequence[MessageQueue]]:
        for start in range(0, wish.queue_count, STEP_QUEUES):
            yield wish.queues(start, start + STEP_QUEUES)

    return {RequestCode.LOCK_BATCH_MQ: lock, RequestCode.UNLOCK_BATCH_MQ: unlock}
