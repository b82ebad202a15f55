"""One thread for what would make the event loop wait for the disk: syncing derived files, deleting, measuring."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from rocketeer.store.scheduling import use_batch_scheduling

log = logging.getLogger(__name__)


class Worker:
    """Runs jobs one after the other. A job that fails is logged; nobody waits for it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(
            1, thread_name_prefix="rocketeer-store-worker", initializer=use_batch_scheduling
        )

    def submit(self, name: str, job: Callable[[], object]) -> "Future[bool]":
        """The future says whether the job succeeded."""

        def run() -> bool:
            try:
                job()
            except OSError as error:
                log.error("%s failed error=%s", name, error)
                return False
            return True

        return self._pool.submit(run)

    def close(self) -> None:
        """Finish what was submitted."""
        self._pool.shutdown(wait=True)
