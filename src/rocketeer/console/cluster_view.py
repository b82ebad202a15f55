"""A cluster as the console sees it: an Admin, and answers that are kept for a moment.

Many browsers ask for the same figures at the same time; brokers are asked once. An answer that
is no longer fresh is shown at once while a new one is under way, so pages never wait for a slow broker twice.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rocketeer.admin.results import PerBroker
from rocketeer.aio import Admin, Producer
from rocketeer.console.config import ClusterConfig
from rocketeer.console.jobs import Jobs
from rocketeer.errors import RocketeerError

T = TypeVar("T")

FRESH_S = 2.0
PRODUCER_GROUP = "CONSOLE_PRODUCER"
STALE_S = 30.0
"""Older answers are not shown: the page waits for a new one."""
SAMPLE_S = 5.0
LOOK_S = 1.0
LOOKS_MAX = 200
COLLECTING_SHARE = 0.02
"""Share of the time: what asks brokers thousands of things pauses fifty times as long as it took."""
HISTORY = 720
"""Points of the dashboard's charts: an hour."""


class CachedAnswer(Generic[T]):
    """The last answer to one question.

    With `share` asking takes at most that part of the time: what takes 3 s is not asked every 5.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[T]],
        *,
        fresh_s: float = FRESH_S,
        share: float = 1.0,
    ) -> None:
        self._ask = ask
        self._fresh_s = fresh_s
        self._share = share
        self._value: T | None = None
        self._taken_s = float("-inf")
        self._took_s = 0.0
        self._is_old = False
        """Something was changed since it was asked."""
        self._asking: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """An answer that is not stale; waits for one if need be."""
        known = self._refresh()
        age_s = time.monotonic() - self._taken_s
        if known is None or self._is_old or age_s > STALE_S:
            assert self._asking is not None
            return await asyncio.shield(self._asking)
        return known

    async def soon(self, wait_s: float = 0.2) -> T | None:
        """The last answer whatever its age; None if there is none and none comes at once. For what takes seconds."""
        known = self._refresh()
        asking = self._asking
        if asking is not None and (known is None or self._is_old):
            done, _ = await asyncio.wait((asking,), timeout=wait_s)
            if done:
                return asking.result()
        return known

    def _refresh(self) -> T | None:
        """What is known; an answer that is not fresh is asked for anew."""
        fresh_s = max(self._fresh_s, self._took_s / self._share)
        if self._asking is None and (self._is_old or time.monotonic() - self._taken_s > fresh_s):
            self._asking = asyncio.create_task(self._take())
            self._asking.add_done_callback(self._asked)
        return self._value

    def forget(self) -> None:
        """After a change: the next page must show it, so an answer that is under way counts no more."""
        self._is_old = True
        self._asking = None

    async def _take(self) -> T:
        began_s = time.monotonic()
        value = await self._ask()
        if self._asking is asyncio.current_task():
            self._value, self._taken_s, self._is_old = value, time.monotonic(), False
            self._took_s = self._taken_s - began_s
        return value

    def _asked(self, task: "asyncio.Task[T]") -> None:
        if self._asking is task:
            self._asking = None
        if not task.cancelled():
            task.exception()  # whoever waits has it; for a refresh behind a page nobody does


class PageCache:
    """What pages were made from, for a moment: browsers that look at one page at one time cost one look."""

    def __init__(self) -> None:
        self._looks: OrderedDict[Hashable, tuple[float, asyncio.Task[Any]]] = OrderedDict()

    async def get(self, key: Hashable, load: Callable[[], Awaitable[T]]) -> T:
        known = self._looks.get(key)
        if known is None or (known[1].done() and time.monotonic() - known[0] > LOOK_S):
            known = time.monotonic(), asyncio.ensure_future(_awaited(load()))
            self._looks[key] = known
            self._looks.move_to_end(key)
            while len(self._looks) > LOOKS_MAX:
                self._looks.popitem(last=False)
        try:
            found: T = await asyncio.shield(known[1])
        except Exception:
            if self._looks.get(key) is known:
                del self._looks[key]  # the next one tries anew
            raise
        return found

    def forget(self) -> None:
        self._looks.clear()


async def _awaited(load: Awaitable[T]) -> T:
    return await load


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
        self.config = config
        self.admin = Admin(config.nameserver, access_key=config.access_key, secret_key=config.secret_key)
        self.brokers = CachedAnswer(self.admin.cluster_map)
        self.runtime = CachedAnswer(lambda: self._of_brokers(self.admin.cluster_runtime))
        self.topics = CachedAnswer(self.admin.topics)
        self.topic_configs = CachedAnswer(lambda: self._of_brokers(self.admin.topic_configs), fresh_s=5.0)
        self.groups = CachedAnswer(self.admin.groups, fresh_s=5.0, share=COLLECTING_SHARE)
        self.topic_rates = CachedAnswer(self._topic_rates, fresh_s=5.0, share=COLLECTING_SHARE)
        self.looks = PageCache()
        self.jobs = Jobs()
        self._sampler: asyncio.Task[None] | None = None
        self.history: deque[Point] = deque(maxlen=HISTORY)

    async def start(self) -> None:
        """Start; name servers that cannot be found now are looked for again with each request."""
        with contextlib.suppress(RocketeerError):
            await self.ensure_started()

    async def ensure_started(self) -> None:
        """Start unless started; raises RocketeerError."""
        if self._sampler is None:
            await self.admin.start()
            self._sampler = self._sampler or asyncio.create_task(self._sample_forever())

    async def close(self) -> None:
        if self._sampler is not None:
            self._sampler.cancel()
        await self.jobs.close()
        await self.admin.close()

    async def _of_brokers(self, ask: Callable[[], Awaitable[PerBroker[T]]]) -> PerBroker[T]:
        """Where no broker is registered there is nobody to ask, and nothing to know: that is no failure."""
        return await ask() if (await self.brokers.get()).brokers else PerBroker({})

    async def _topic_rates(self) -> Mapping[str, float | None]:
        return await self.admin.topic_rates() if (await self.brokers.get()).masters() else {}

    def changed(self) -> None:
        """Forget kept answers after a change, so that the next page shows it."""
        for kept in (self.brokers, self.runtime, self.topics, self.topic_configs, self.groups):
            kept.forget()
        self.looks.forget()

    async def _sample_forever(self) -> None:
        """Sample every broker for the charts, so that these have a past when somebody opens them."""
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

    def producer(self) -> Producer:
        """For a test message; start it, send, close it."""
        config = self.config
        return Producer(
            PRODUCER_GROUP,
            nameserver=config.nameserver,
            access_key=config.access_key,
            secret_key=config.secret_key,
        )
