"""Runs the features' periodic services on the loop; one that fails is logged and tried again next time."""

import asyncio
import inspect
import logging
from collections.abc import Iterable

from rocketeer.broker.feature import Periodic

log = logging.getLogger(__name__)


class Services:
    """One task a service."""

    def __init__(self, services: Iterable[Periodic]) -> None:
        self._services = tuple(services)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(_run(service), name=service.name) for service in self._services]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _run(service: Periodic) -> None:
    while True:
        await asyncio.sleep(service.interval_s)
        try:
            outcome = service.run()
            if inspect.isawaitable(outcome):
                await outcome
        except Exception:
            log.exception("service failed name=%s", service.name)
