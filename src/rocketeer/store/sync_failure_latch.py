"""Whether the disk is still believed. One sync that failed ends it, for the store's whole life.

The kernel reports a failed write once, to whoever syncs next, and then takes the pages for clean: a second sync
succeeds and proves nothing. So whoever syncs (flusher, preparer, checkpoints) reports a failure here. From then on
nothing is declared to be on disk, no message is taken, no checkpoint is written, and `abort` stays: the next start
reads the log, and believes what it reads.
"""

import logging
from collections.abc import Callable
from functools import partial
from threading import Lock

log = logging.getLogger(__name__)


class SyncFailureLatch:
    """Records the first failed sync, after which nothing is written. Used by every thread; `listeners` run on the
    loop, once."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post
        self._lock = Lock()
        self.error: OSError | None = None
        self.listeners: list[Callable[[OSError], None]] = []

    def record(self, what: str, error: OSError) -> None:
        """A sync of `what` failed."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
        log.critical(
            "sync failed what=%s error=%s: the disk is not trusted any more, no more messages are taken", what, error
        )  # fmt: skip
        self._post(partial(self._tell, error))

    def _tell(self, error: OSError) -> None:
        for listener in self.listeners:
            listener(error)

    def raise_if_failed(self) -> None:
        """Raise the error of the sync that failed, if one did."""
        if self.error is not None:
            raise self.error
