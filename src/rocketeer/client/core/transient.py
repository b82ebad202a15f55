"""Which failures pass by themselves: the one list that sends, pulls and planning go by when they try again."""

from collections.abc import Iterator
from typing import Final

from rocketeer.errors import AccessDenied, BrokerRefused, NoBroker, NoNameServer, RemotingError
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
UNREACHABLE: Final = (RemotingError, NoBroker, NoNameServer)
"""No server answered, or none is known at the moment."""


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    if isinstance(error, AccessDenied):
        return False
    if isinstance(error, BrokerRefused):
        return error.code in TRANSIENT_CODES
    return isinstance(error, UNREACHABLE)


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
