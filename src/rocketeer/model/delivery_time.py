"""When a message is to be delivered, as users say it and as the broker wants it: milliseconds."""

import math
from datetime import datetime, timedelta
from typing import Final

from rocketeer.errors import RocketeerError

_MS: Final = timedelta(milliseconds=1)
_MS_MAX: Final = (1 << 63) - 1  # what Java's long holds
_SECONDS_OF_2001: Final = 10**9  # a time in seconds looks like this: a mistake of units, not a time in 1970


class BadDeliveryTime(RocketeerError, ValueError):
    """A time or delay that no message can have; the text names the argument."""


def deliver_at_ms(when: datetime | int) -> int:
    """Milliseconds since 1970 of a point in time.

    >>> from datetime import UTC
    >>> deliver_at_ms(datetime(2030, 1, 1, tzinfo=UTC))
    1893456000000
    """
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise BadDeliveryTime(
                f"deliver_at {when!r} has no time zone: give it one, for example tzinfo=datetime.UTC"
            )
        return round(when.timestamp() * 1000)
    if isinstance(when, bool) or not isinstance(when, int):
        raise BadDeliveryTime(f"deliver_at must be a datetime or whole milliseconds, not {when!r}")
    if _SECONDS_OF_2001 < when < 10 * _SECONDS_OF_2001:
        raise BadDeliveryTime(f"deliver_at {when} seems to be in seconds: give milliseconds since 1970")
    if not 0 < when <= _MS_MAX:
        raise BadDeliveryTime(f"deliver_at {when} is no time in milliseconds since 1970")
    return when


def delay_in_ms(delay: timedelta | float) -> int:
    """Milliseconds of a delay; a number counts seconds. Parts of a millisecond count as a whole one.

    >>> delay_in_ms(timedelta(minutes=2)), delay_in_ms(1.5)
    (120000, 1500)
    """
    if isinstance(delay, timedelta):
        delay_ms = -(-delay // _MS)
    elif isinstance(delay, bool) or not isinstance(delay, int | float) or not math.isfinite(delay):
        raise BadDeliveryTime(f"delay must be a timedelta or seconds, not {delay!r}")
    else:
        delay_ms = math.ceil(round(delay * 1000, 3))
    if not 0 <= delay_ms <= _MS_MAX:
        raise BadDeliveryTime(f"delay {delay} is not possible: it must be 0 or more")
    return delay_ms
