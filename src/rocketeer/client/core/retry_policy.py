"""What becomes of a message whose listener failed, by what it raised. Pure.

policy = RetryPolicy(backoff=[1, 10, 60], dead_letter=(ValueError,), ignore=(AlreadyBilled,), tries_max=5)

@consumer.subscribe("orders", retry=policy)
def bill(message): ...
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketeer.client.core.outcome import TO_DEAD_LETTERS, Outcome, Retry
from rocketeer.errors import ConfigError, UndecodableBody
from rocketeer.record.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels

log = logging.getLogger(__name__)

Errors: TypeAlias = tuple[type[BaseException], ...]
Backoff: TypeAlias = Sequence[float] | Callable[[int], float] | None

_DELAYS_S: Final = tuple(ms / 1000 for ms in DelayLevels.parse(DEFAULT_DELAY_LEVELS).delays_ms)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Given to a listener as `retry=`.

    What is in `ignore` counts as consumed, what is in `dead_letter` goes to the dead letters at once; anything else
    is tried again, until it has been tried `tries_max` times (None: as often as the consumer's `retries` says). With
    `retry` given only those errors are tried again, and whatever is in none of the three goes to the dead letters.
    `backoff` says after how many seconds: a list, whose last number counts for all further tries, or a function of
    the number of tries so far (1 after the first). Concurrent consumption waits just so long where the broker is
    Rocketeer's, else for the delay level that is at least as long (1 s to 2 h); ordered consumption pauses its queue
    for up to 30 s. None: the broker's steps, longer with every try.

    >>> RetryPolicy(backoff=[1, 10, 60]).outcome(OSError(), tries=2)
    Retry(delay_level=3, suspend_s=10.0, from_index=0, delay_s=10.0)
    """

    backoff: Backoff = None
    dead_letter: Errors = ()
    ignore: Errors = ()
    tries_max: int | None = None
    retry: Errors | None = None

    def __post_init__(self) -> None:
        for name in ("dead_letter", "ignore", "retry"):
            kinds = getattr(self, name)
            if kinds is None and name == "retry":
                continue
            if not isinstance(kinds, tuple) or not all(
                isinstance(each, type) and issubclass(each, BaseException) for each in kinds
            ):
                raise ConfigError(f"{name} of a RetryPolicy is {kinds!r}: it is a tuple of exception classes")
        if self.tries_max is not None and (not isinstance(self.tries_max, int) or self.tries_max < 1):
            raise ConfigError(
                f"tries_max of a RetryPolicy is {self.tries_max!r}: the first try counts, 1 or more"
            )
        if self.backoff is not None and not callable(self.backoff) and not _are_pauses(self.backoff):
            raise ConfigError(
                f"backoff of a RetryPolicy is {self.backoff!r}: seconds in a list, none negative, or a function"
            )

    def outcome(self, error: BaseException, tries: int) -> Outcome:
        """What the error means after so many tries, this one included."""
        if isinstance(error, self.ignore):
            return None
        if isinstance(error, (*self.dead_letter, UndecodableBody)) or (
            self.tries_max is not None and tries >= self.tries_max
        ):
            return Retry(delay_level=TO_DEAD_LETTERS)
        if self.retry is not None and not isinstance(error, self.retry):
            return Retry(delay_level=TO_DEAD_LETTERS)
        pause_s = self._pause_s(tries)
        if pause_s is None:
            return Retry()
        return Retry(delay_level=level_for(pause_s), suspend_s=pause_s, delay_s=pause_s)

    def _pause_s(self, tries: int) -> float | None:
        """None leaves it to the broker's steps."""
        if self.backoff is None:
            return None
        if not callable(self.backoff):
            return float(self.backoff[min(tries, len(self.backoff)) - 1])
        try:
            pause_s = float(self.backoff(tries))
            if not 0 <= pause_s < float("inf"):
                raise ValueError(f"{pause_s:g} s is no pause")
        except Exception:  # the message comes again all the same
            log.exception("backoff failed, the broker's steps count backoff=%r tries=%d", self.backoff, tries)
            return None
        return pause_s


def checked_retry(topic: str, retry: RetryPolicy) -> RetryPolicy:
    """Raise ConfigError for anything else, such as the errors that a policy would name."""
    if not isinstance(retry, RetryPolicy):
        raise ConfigError(
            f"retry of the listener of topic {topic!r} is {retry!r:.80}: it must be a RetryPolicy(...)"
        )
    return retry


def _are_pauses(given: object) -> bool:
    return (
        isinstance(given, Sequence)
        and not isinstance(given, str)
        and bool(given)
        and all(isinstance(each, int | float) and 0 <= each < float("inf") for each in given)
    )


DEFAULT_RETRY: Final = RetryPolicy()
"""Everything is tried again, after the broker's steps."""


def level_for(pause_s: float) -> int:
    """The first of RocketMQ's delay levels that is at least this long; the last one for anything longer.

    >>> level_for(0), level_for(7), level_for(1e9)
    (1, 3, 18)
    """
    return next((level for level, delay_s in enumerate(_DELAYS_S, 1) if delay_s >= pause_s), len(_DELAYS_S))
