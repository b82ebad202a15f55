"""A cluster as the console sees it: an Admin, and answers that are kept for a moment.

Many browsers ask for the same figures at the same time; brokers are asked once. An answer that
is no longer fresh is shown at once while a new one is under way, so pages never wait for a slow broker twice.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rocketeer.aio import Admin, Producer
from rocketeer.console.config import ClusterConfig
from rocketeer.console.jobs import Jobs

T = TypeVar("T")

FRESH_S = 2.0
STALE_S = 30.0
"""Older answers are not shown: the page waits for a new one."""
HISTORY = 360
"""Points of the dashboard's charts, one every few seconds while somebody looks."""


class Kept(Generic[T]):
    """The last answer to one question."""

    def __init__(
        self, ask: Callable[[], Awaitable[T]], *, fresh_s: float = FRESH_S, stale_s: float = STALE_S
    ) -> None:
        self._ask = ask
        self._fresh_s = fresh_s
        self._stale_s = stale_s
        self._value: T | None = None
        self._taken_s = float("-inf")
        self._asking: asyncio.Task[T] | None = None

    async def get(self) -> T:
        age_s = time.monotonic() - self._taken_s
        if age_s <= self._fresh_s:
            return self._value  # type: ignore[return-value]  # it was taken
        if self._asking is None:
            self._asking = asyncio.create_task(self._take())
            self._asking.add_done_callback(self._asked)
        if age_s <= self._stale_s:
            return self._value  # type: ignore[return-value]  # it was taken
        return await asyncio.shield(self._asking)

    def forget(self) -> None:
        """After a change: the next page must show it."""
        self._taken_s = float("-inf")

    async def _take(self) -> T:
        value = await self._ask()
        self._value, self._taken_s = value, time.monotonic()
        return value

    def _asked(self, task: "asyncio.Task[T]") -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()  # whoever waits has it; for a refresh behind a page nobody does


@dataclass(frozen=True)
class Point:
    """One moment of the charts; None where nobody answered."""

    at_s: float
    in_tps: float | None
    out_tps: float | None
    lag: int | None


class ClusterView:
    """Start it before use; close it afterwards."""

    def __init__(self, config: ClusterConfig) -> None:
        self.name = config.name
        self._config = config
        self.admin = Admin(config.nameserver, access_key=config.access_key, secret_key=config.secret_key)
        self.brokers = Kept(self.admin.cluster_map)
        self.runtime = Kept(self.admin.cluster_runtime)
        self.topics = Kept(self.admin.topics)
        self.topic_configs = Kept(self.admin.topic_configs, fresh_s=5.0)
        self.groups = Kept(self.admin.groups, fresh_s=5.0)
        self.jobs = Jobs()
        self.history: deque[Point] = deque(maxlen=HISTORY)

    async def start(self) -> None:
        await self.admin.start()

    async def close(self) -> None:
        await self.jobs.close()
        await self.admin.close()

    def changed(self) -> None:
        """Something was changed here: show it."""
        for kept in (self.brokers, self.runtime, self.topics, self.topic_configs, self.groups):
            kept.forget()

    def remember(self, point: Point) -> None:
        if not self.history or point.at_s - self.history[-1].at_s >= FRESH_S:
            self.history.append(point)

    def producer(self, group: str) -> Producer:
        """For a test message; start it, send, close it."""
        config = self._config
        return Producer(
            group, nameserver=config.nameserver, access_key=config.access_key, secret_key=config.secret_key
        )
