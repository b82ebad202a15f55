"""What a listener says about the messages it was given: nothing for success, or one of these values."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from rocketeer.errors import ClientError, ConfigError

TO_DEAD_LETTERS: Final = -1
DELAY_LEVEL_MAX: Final = 18


@dataclass(frozen=True, slots=True)
class Retry:
    """Deliver again later; `return RETRY` is enough in most listeners, and raising an error means the same.

    `delay_level` 1 .. 18 says when (the broker's table); 0 lets it wait longer with every try; -1 gives up:
    the message goes to the group's dead letters. `delay_s` says when in seconds: Rocketeer's brokers wait just so
    long, Apache's for `delay_level` or the next level that is at least as long. `suspend_s` is the pause of an
    ordered queue. `from_index` is for listeners that take lists: messages before it were consumed.

    >>> Retry(delay_level=3)
    Retry(delay_level=3, suspend_s=None, from_index=0, delay_s=None)
    """

    delay_level: int = 0
    suspend_s: float | None = None
    from_index: int = 0
    delay_s: float | None = None

    def __post_init__(self) -> None:
        if not TO_DEAD_LETTERS <= self.delay_level <= DELAY_LEVEL_MAX:
            raise ConfigError(
                f"Retry(delay_level={self.delay_level}): levels are 1 .. {DELAY_LEVEL_MAX}, 0 for longer with every "
                "try, -1 for the dead letters"
            )
        if self.delay_s is not None and not 0 <= self.delay_s < float("inf"):
            raise ConfigError(f"Retry(delay_s={self.delay_s}): seconds, 0 or more")


class Ordered(Enum):
    """For ordered consumption with `auto_commit=False`: when what was consumed is finished."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


RETRY: Final = Retry()
"""Deliver again later: longer with every try."""
COMMIT: Final = Ordered.COMMIT
"""Everything consumed of this queue so far is finished."""
ROLLBACK: Final = Ordered.ROLLBACK
"""Everything consumed since the last COMMIT comes again."""

Outcome: TypeAlias = Retry | Ordered | None
"""What a listener returns: nothing for success, a Retry, COMMIT or ROLLBACK."""


def as_outcome(returned: object) -> Outcome:
    """What a listener's return value means; raises ClientError for one that means nothing."""
    if returned is None or isinstance(returned, Retry | Ordered):
        return returned
    raise ClientError(
        f"a listener returned {returned!r:.100}: it returns nothing when all went well, RETRY or Retry(...) to get "
        "the message again, and when ordered without auto_commit COMMIT or ROLLBACK"
    )
