"""A cluster as the console sees it: an Admin, and answers that are kept for a moment.

Many browsers ask for the same figures at the same time; brokers are asked once. An answer that
is no longer fresh is shown at once while a new one is under way, so pages never wait for a slow broker twice.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rocketeer.aio import Admin, Producer
from rocketeer.console.config import ClusterConfig
from rocketeer.console.jobs import Jobs
from rocketeer.errors import RocketeerError

T = TypeVar("T")

FRESH_S = 2.0
STALE_S = 30.0
"""Older answers are not shown: the page waits for a new one."""
SAMPLE_S = 5.0
HISTORY = 720
"""Points of the dashboard's charts: an hour."""


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
        """An answer that is not stale; waits for one if need be."""
        known = self._refresh()
        age_s = time.monotonic() - self._taken_s
        if known is None or age_s > self._stale_s:
            assert self._asking is not None
            return await asyncio.shield(self._asking)
        return known

    async def soon(self, wait_s: float = 0.2) -> T | None:
        """The last answer whatever its age; None if there is none and none comes at once. For what takes seconds."""
        known = self._refresh()
        if known is None and self._asking is not None:
            done, _ = await asyncio.wait((self._asking,), timeout=wait_s)
            if done:
                return self._asking.result() if self._asking is not None else self._value
        return known

    def _refresh(self) -> T | None:
        """What is known; an answer that is not fresh is asked for anew."""
        if self._asking is None and time.monotonic() - self._taken_s > self._fresh_s:
            self._asking = asyncio.create_task(self._take())
            self._asking.add_done_callback(self._asked)
        return self._value

    def forget(self) -> None:
        """After a change: the next page must show it."""
        self._taken_s = float("-inf")
        self._value = None

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


def total(figures: Iterable[float | None]) -> float | None:
    """None when nobody answered: unknown is not zero."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


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
        self._sampler: asyncio.Task[None] | None = None
        self.history: deque[Point] = deque(maxlen=HISTORY)

    async def start(self) -> None:
        await self.admin.start()
        self._sampler = asyncio.create_task(self._sample_forever())

    async def close(self) -> None:
        if self._sampler is not None:
            self._sampler.cancel()
        await self.jobs.close()
        await self.admin.close()

    def changed(self) -> None:
        """Something was changed here: show it."""
        for kept in (self.brokers, self.runtime, self.topics, self.topic_configs, self.groups):
            kept.forget()

    async def _sample_forever(self) -> None:
        """So that charts have a past when somebody opens them; one small question to each broker."""
        while True:
            try:
                runtime = await self.runtime.get()
            except RocketeerError:
                self.history.append(Point(time.time(), None, None))
            else:
                answers = runtime.answers.values()
                self.history.append(
                    Point(
                        time.time(),
                        total(each.put_tps for each in answers),
                        total(each.get_tps for each in answers),
                    )
                )
            await asyncio.sleep(SAMPLE_S)

    def producer(self, group: str) -> Producer:
        """For a test message; start it, send, close it."""
        config = self._config
        return Producer(
            group, nameserver=config.nameserver, access_key=config.access_key, secret_key=config.secret_key
        )
