"""Runs the features' periodic services on the loop; one that fails is logged and tried again next time."""

import asyncio
import logging
from collections.abc import Iterable

from rocketeer.broker.feature import Periodic

log = logging.getLogger(__name__)


class Services:
    """Runs every periodic service on its own schedule: a pause follows the end of each run."""

    def __init__(self, services: Iterable[Periodic]) -> None:
        self._runs = [_ServiceRun(service) for service in services]

    def start(self) -> None:
        for run in self._runs:
            run.start()

    async def stop(self) -> None:
        ended = [run.end() for run in self._runs]
        await asyncio.gather(*[task for task in ended if task is not None], return_exceptions=True)


class _ServiceRun:
    """One service, again and again. Most times are short and wait for nothing: a timer costs a quarter
    of what a sleeping task does."""

    def __init__(self, service: Periodic) -> None:
        self._service = service
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Future[None] | None = None
        self._resting = False
        if service.idle_pause is not None:
            service.idle_pause.on_wake.append(self._wake)

    def start(self) -> None:
        pause = self._service.idle_pause
        self._resting = pause is not None and pause.is_idle()
        self._wait(pause.interval_s if pause is not None and self._resting else self._service.interval_s)

    def _wait(self, interval_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(interval_s, self._fire)

    def _wake(self) -> None:
        if self._resting and self._timer is not None and not self._stopped:
            self._resting = False
            self._timer.cancel()
            self._wait(self._service.interval_s)

    def end(self) -> asyncio.Future[None] | None:
        """Stop the service; returns the cancelled task of a run that has begun, to be awaited."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        return self._task

    def _fire(self) -> None:
        self._resting = False  # whoever wakes it while it runs must not start it a second time
        try:
            outcome = self._service.run()
        except Exception:
            log.exception("service failed name=%s", self._service.name)
        else:
            if outcome is not None:
                # Not wrapped: what is cancelled before its first step must be `outcome` itself, or nobody ends it.
                self._task = asyncio.ensure_future(outcome)
                self._task.add_done_callback(self._finished)
                return
        if not self._stopped:
            self.start()

    def _finished(self, task: asyncio.Future[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("service failed name=%s", self._service.name, exc_info=error)
        if not self._stopped:
            self.start()
