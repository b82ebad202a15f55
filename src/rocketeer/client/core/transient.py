"""Which failures pass by themselves, and which of them another broker or a later moment helps: each set stands here.

Who asks what:

    sends (`attempts`, `plans.send`)         `stored_nothing`: tried until their time is over; `another_may_take_it`
    idempotent sends (`plans.idempotent`)    `STORED_NOTHING`, `TRANSIENT_CODES`
    going back for a retry (`aio.consuming`) `OVERLOADED_CODES`: any other refusal is final
    Spark, reading and writing               `passes`: waited for as long as an option says, a stream for ever

Pulls and rebalances of consumers go by none of these: whatever failed is tried again after a pause, as Java's do, for
nobody is there to be told, and an operator may yet grant what was denied.
"""

from collections.abc import Iterator
from typing import Final

from rocketeer.errors import (
    AccessDenied,
    BrokerRefused,
    ConnectFailed,
    ConnectionLost,
    NoBroker,
    NoNameServer,
    NoRoute,
    RemotingError,
)
from rocketeer.protocol.codes import ResponseCode

OVERLOADED_CODES: Final = frozenset(
    {
        int(ResponseCode.SYSTEM_BUSY),
        int(ResponseCode.SERVICE_NOT_AVAILABLE),
        int(ResponseCode.FLOW_CONTROL),
    }
)
"""The broker has too much to do, or is starting or stopping: the request itself is in order."""
TRANSIENT_CODES: Final = OVERLOADED_CODES | {int(ResponseCode.SYSTEM_ERROR)}
"""A broker that refuses so may take the request a moment later."""
ANOTHER_MAY_TAKE_IT: Final = frozenset(
    {
        int(ResponseCode.TOPIC_NOT_EXIST),
        int(ResponseCode.SERVICE_NOT_AVAILABLE),
        int(ResponseCode.SYSTEM_ERROR),
        int(ResponseCode.NO_PERMISSION),
        int(ResponseCode.NO_BUYER_ID),
        int(ResponseCode.NOT_IN_CURRENT_UNIT),
    }
)
"""A sync send that is refused so goes to another broker: RocketMQ's list (4.9.8)."""
STORED_NOTHING: Final = (ConnectFailed, NoBroker)
"""The request certainly did not arrive."""
UNREACHABLE: Final = (RemotingError, NoBroker, NoNameServer)
"""No server answered, or none is known at the moment."""


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    if isinstance(error, AccessDenied):
        return False
    if isinstance(error, BrokerRefused):
        return error.code in TRANSIENT_CODES
    return isinstance(error, UNREACHABLE)


def passes(error: BaseException) -> bool:
    """As `is_transient`, for topics that are known to be: servers that have just started may not know them yet."""
    if isinstance(error, BrokerRefused) and error.code == ResponseCode.TOPIC_NOT_EXIST:
        return True
    return isinstance(error, NoRoute) or is_transient(error)


def is_led_elsewhere(error: BaseException) -> bool:
    """Refused before anything was stored, by a broker that takes no messages now: another may lead its group."""
    return isinstance(error, BrokerRefused) and error.code == ResponseCode.SERVICE_NOT_AVAILABLE


def stored_nothing(error: BaseException) -> bool:
    """Whether a send that failed so may be tried again without storing a message twice."""
    return isinstance(error, STORED_NOTHING) or is_led_elsewhere(error)


def is_route_in_doubt(error: BaseException) -> bool:
    """Whether the queue's broker may have moved: its route is worth another look."""
    return isinstance(error, ConnectionLost) or stored_nothing(error)


def another_may_take_it(error: BaseException) -> bool:
    """Whether a sync send that failed so is worth another broker."""
    return not isinstance(error, BrokerRefused) or error.code in ANOTHER_MAY_TAKE_IT


def backoffs(first_s: float, longest_s: float) -> Iterator[float]:
    """Pauses without end, each twice as long as the one before up to a limit.

    >>> from itertools import islice
    >>> list(islice(backoffs(0.1, 0.5), 4))
    [0.1, 0.2, 0.4, 0.5]
    """
    pause_s = first_s
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, longest_s)
