"""Planning asks brokers, which may be away for a moment: it is tried again as often as fetches are."""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from rocketeer.client.core.transient import UNREACHABLE
from rocketeer.errors import ClientError, RemotingError
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.view import View

log = logging.getLogger(__name__)
T = TypeVar("T")


def with_retries(options: SourceOptions, view: View, ask: Callable[[], T]) -> T:
    """What `ask` returns. A server that does not answer is asked again, at the address it then has."""
    for _ in range(options.fetch_retries):
        try:
            return ask()
        except UNREACHABLE as error:
            log.warning("planning tried again error=%s", error)
        time.sleep(options.fetch_retry_interval_ms / 1000)
        with contextlib.suppress(RemotingError, ClientError):
            view.queues()  # which fetches the routes
    return ask()
