"""Queue locks of orderly consumers: take or renew (41), give back (42)."""

from rocketeer.broker.locks import QueueLocks
from rocketeer.clock import Clock
from rocketeer.protocol.bodies.locks import decode_lock_request, encode_locked_queues
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply
from rocketeer.remoting.server import Connection, Handler


def lock_time_ms(clock: Clock) -> int:
    """What locks age by: a clock that is set forward must not take queues away from their owners."""
    return int(clock.monotonic_s() * 1000)


def lock_handlers(locks: QueueLocks, clock: Clock) -> dict[int, Handler]:
    def lock(command: Command, connection: Connection) -> Command:
        wish = decode_lock_request(command.body)
        owned = locks.lock(wish.consumer_group, wish.client_id, wish.queues, lock_time_ms(clock))
        return reply(command, body=encode_locked_queues(owned))

    def unlock(command: Command, connection: Connection) -> Command:
        wish = decode_lock_request(command.body)
        locks.unlock(wish.consumer_group, wish.client_id, wish.queues)
        return reply(command)

    return {RequestCode.LOCK_BATCH_MQ: lock, RequestCode.UNLOCK_BATCH_MQ: unlock}
