"""The option `maxRowsPerSecond`: a task sends no faster. Here, behind all buffers, and not where rows are made."""

import os
import time
from collections.abc import Callable

from rocketeer.errors import ClientError
from rocketeer.spark.sink.requests import Request


def rate_limited(submit: Callable[[Request], None], rows_per_s: int) -> Callable[[Request], None]:
    """`submit`, held back: at any time at most so many rows per second since the first, and one request."""
    began_s: float | None = None
    sent = 0
    parent = os.getppid()

    def wait_and_submit(request: Request) -> None:
        nonlocal began_s, sent
        now_s = time.monotonic()
        if began_s is None:
            began_s = now_s
        ahead_s = began_s + sent / rows_per_s - now_s
        if ahead_s > 0:
            time.sleep(ahead_s)
            if os.getppid() != parent:
                # Nobody else tells a task with all its rows in hand, which would send them for minutes to come.
                raise ClientError("Spark has ended: the rest of the task's rows is not sent")
        elif sent:
            # Time that was lost elsewhere is not made up for: that would be faster than allowed for a while.
            began_s -= ahead_s
        sent += len(request.rows)
        submit(request)

    return wait_and_submit
