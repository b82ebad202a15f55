"""Time limits and rates, and who hears of errors."""

import logging
import threading
import time
from collections.abc import Callable
from typing import ClassVar

from rocketeer.client.core.middleware import (
    Consuming,
    Context,
    Middleware,
    Pause,
    PublishContext,
    Publishing,
    Within,
)
from rocketeer.errors import ConfigError

log = logging.getLogger(__name__)


class Timeout(Middleware):
    """A listener that takes longer is cancelled, and has failed with TimeoutError. Coroutine functions only.

    A plain function cannot be stopped: `consume_timeout_s` gives its message to somebody else instead.
    """

    for_coroutines: ClassVar[bool] = True

    def __init__(self, seconds: float) -> None:
        if seconds <= 0:
            raise ConfigError(f"Timeout({seconds}): it must be more than 0")
        self._seconds = seconds

    def consume(self, context: Context) -> Consuming:
        return (yield Within(self._seconds))


class RateLimit(Middleware):
    """At most so many calls of listeners, or sends, in a second; those over it wait.

    `RateLimit(consume=100)` for all listeners it is given to together; `burst` is how many may come at once after a
    pause.
    """

    def __init__(
        self,
        *,
        consume: float | None = None,
        publish: float | None = None,
        burst: int = 1,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if consume is None and publish is None:
            raise ConfigError("RateLimit() limits nothing: give consume= or publish=, per second")
        self._consume = None if consume is None else _Bucket(consume, burst, now_s)
        self._publish = None if publish is None else _Bucket(publish, burst, now_s)

    def consume(self, context: Context) -> Consuming:
        if self._consume is not None:
            yield Pause(self._consume.take(1))
        return (yield)

    def publish(self, context: PublishContext) -> Publishing:
        if self._publish is not None:
            yield Pause(self._publish.take(len(context.messages)))
        return (yield)


class _Bucket:
    """`due` is when the next one may come if all before it did; it lags behind the clock by `burst` at most."""

    def __init__(self, per_second: float, burst: int, now_s: Callable[[], float]) -> None:
        if per_second <= 0 or burst < 1:
            raise ConfigError(f"a rate of {per_second} a second, {burst} at once: more than 0, and 1 or more")
        self._every_s = 1 / per_second
        self._ahead_s = (burst - 1) * self._every_s
        self._now_s = now_s
        self._guard = threading.Lock()
        self._due_s = 0.0

    def take(self, count: int) -> float:
        """How many seconds to wait."""
        with self._guard:
            now_s = self._now_s()
            start_s = max(self._due_s, now_s - self._ahead_s)
            self._due_s = start_s + count * self._every_s
            return max(start_s - now_s, 0.0)


class ErrorHook(Middleware):
    """Tells a function of every error, as Sentry and its like want it; the error goes on as before.

    `ErrorHook(lambda error, context: sentry_sdk.capture_exception(error))`. The context is a `Context`, or of a send
    that failed a `PublishContext`. Errors of `ignore` are not told; what the function raises is logged.
    """

    def __init__(
        self,
        report: Callable[[Exception, Context | PublishContext], object],
        *,
        ignore: tuple[type[Exception], ...] = (),
    ) -> None:
        self._report = report
        self._ignore = ignore

    def consume(self, context: Context) -> Consuming:
        try:
            return (yield)
        except Exception as error:
            self._tell(error, context)
            raise

    def publish(self, context: PublishContext) -> Publishing:
        try:
            return (yield)
        except Exception as error:
            self._tell(error, context)
            raise

    def _tell(self, error: Exception, context: Context | PublishContext) -> None:
        if isinstance(error, self._ignore):
            return
        try:
            self._report(error, context)
        except Exception:
            log.exception("error hook failed hook=%r", self._report)
