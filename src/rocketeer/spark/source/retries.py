"""Planning asks servers, which may be away for a while: it waits for them as long as tasks do."""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from rocketeer.client.core.transient import passes
from rocketeer.errors import ClientError, NoBroker, NoNameServer, NoRoute, RemotingError
from rocketeer.spark.outages import Outage
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.view import SourceView

log = logging.getLogger(__name__)
T = TypeVar("T")
FIRST_ANSWER_S: Final = 10.0
"""Longest wait for servers that were never seen: perhaps their address or name is wrong."""


def outage_of(options: SourceOptions) -> Outage:
    return Outage(options.fetch_timeout_ms / 1000, options.fetch_retry_interval_ms / 1000)


def with_retries(
    options: SourceOptions,
    view: SourceView,
    ask: Callable[[], T],
    *,
    known: bool = False,
    failed: Callable[[], None] = lambda: None,
) -> T:
    """What `ask` returns. A server that does not answer is asked again, at the address it then has.

    `known`: the queues were there before, so whoever is in no route is away. `failed` hears of every failure that is
    waited for.
    """
    outage = outage_of(options)
    while True:
        try:
            return ask()
        except (RemotingError, ClientError) as error:
            pause_s = _pause_s(outage, known or view.has_answered, error)
            if pause_s is None:
                raise
            failed()
            log.warning(
                "planning waits for broker=%s tries=%d waited_s=%.1f fetch_timeout_s=%g next_s=%.1f error=%s",
                view.broker_label(error),
                outage.tries,
                outage.seconds,
                options.fetch_timeout_ms / 1000,
                pause_s,
                error,
            )
        time.sleep(pause_s)
        with contextlib.suppress(RemotingError, ClientError):
            view.queues()  # which fetches the routes


def _pause_s(outage: Outage, known: bool, error: Exception) -> float | None:
    """None: asking again is of no use, or the time is over."""
    if isinstance(error, NoRoute):
        # A topic nobody has heard of is refused at once; one that was there has lost its brokers for a while.
        return outage.pause_s() if known or outage.tries else None
    if isinstance(error, NoNameServer | NoBroker) and not known:
        return outage.pause_s(FIRST_ANSWER_S)
    return outage.pause_s() if passes(error) else None
