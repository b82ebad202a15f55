"""Listeners run where they should, as many at a time as allowed, and none is forgotten."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from rocketeer.client.aio.workers import Job, TaskWorkers, ThreadWorkers, Workers

WAIT_S = 20


class Listening:
    """A job that sleeps."""

    now = 0
    most = 0
    guard = threading.Lock()

    def __init__(self, number: int, takes_s: float = 0.0) -> None:
        self.number = number
        self.takes_s = takes_s
        self.where = ""

    def _count(self, change: int) -> None:
        with self.guard:
            Listening.now += change
            Listening.most = max(Listening.most, Listening.now)

    def run(self) -> None:
        self._count(1)
        if self.takes_s:
            time.sleep(self.takes_s)
        self.where = threading.current_thread().name
        self._count(-1)

    async def run_async(self) -> None:
        self._count(1)
        if self.takes_s:
            await asyncio.sleep(self.takes_s)
        self.where = threading.current_thread().name
        self._count(-1)


KINDS: list[Callable[..., Workers]] = [ThreadWorkers, TaskWorkers]


@pytest.mark.parametrize("kind", KINDS)
async def test_every_job_is_run_once_and_told_of(kind: Callable[..., Workers]) -> None:
    done: list[Job] = []
    workers = kind(4, done.extend, "w")
    jobs = [Listening(number) for number in range(5000)]
    for at in range(0, 5000, 50):
        workers.submit(jobs[at : at + 50])
        if at % 500 == 0:
            await asyncio.sleep(0)
    assert await workers.wait_idle(WAIT_S)
    assert sorted(done, key=id) == sorted(jobs, key=id)
    workers.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_slow_jobs_run_side_by_side_up_to_the_limit(kind: Callable[..., Workers]) -> None:
    Listening.most = 0
    workers = kind(5, lambda jobs: None, "w")
    began_s = time.monotonic()
    workers.submit([Listening(number, 0.2) for number in range(10)])
    assert await workers.wait_idle(WAIT_S)
    assert Listening.most == 5
    assert time.monotonic() - began_s < 10 * 0.2
    workers.close()


async def test_a_job_that_hangs_does_not_hold_up_the_next_one() -> None:
    done: list[Job] = []
    first = asyncio.Event()

    def told(jobs: list[Job]) -> None:
        done.extend(jobs)
        first.set()

    workers = ThreadWorkers(2, told, "w")
    slow, quick = Listening(0, 1.0), Listening(1)
    workers.submit([slow])
    await asyncio.sleep(0.05)
    workers.submit([quick])
    await asyncio.wait_for(first.wait(), WAIT_S)
    assert done == [quick]
    assert await workers.wait_idle(WAIT_S)
    workers.close()


async def test_quick_jobs_stay_in_one_thread() -> None:
    jobs = [Listening(number) for number in range(200)]
    workers = ThreadWorkers(20, lambda done: None, "w")
    workers.submit(jobs)
    assert await workers.wait_idle(WAIT_S)
    assert len({job.where for job in jobs}) <= 3, "one, or a few when the machine is busy"
    workers.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_paused_workers_begin_nothing(kind: Callable[..., Workers]) -> None:
    done: list[Job] = []
    workers = kind(2, done.extend, "w")
    workers.pause()
    workers.submit([Listening(0), Listening(1)])
    assert not await workers.wait_idle(0.05)
    assert done == []
    workers.resume()
    assert await workers.wait_idle(WAIT_S)
    assert len(done) == 2
    workers.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_jobs_not_begun_can_be_taken_back(kind: Callable[..., Workers]) -> None:
    done: list[Job] = []
    workers = kind(1, done.extend, "w")
    workers.submit([Listening(number, 0.1) for number in range(50)])
    await asyncio.sleep(0.05)
    taken = workers.clear()
    assert 48 <= len(taken) < 50
    assert await workers.wait_idle(WAIT_S), "what had begun is finished"
    assert len(done) + len(taken) == 50
    workers.close()


async def test_a_listener_that_never_waits_leaves_the_loop_its_turns() -> None:
    workers = TaskWorkers(4, lambda jobs: None, "w")
    turns = 0

    class Busy(Listening):
        async def run_async(self) -> None:
            end_s = time.monotonic() + 0.002
            while time.monotonic() < end_s:
                pass

    workers.submit([Busy(number) for number in range(100)])
    while workers._running:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 20
    workers.close()
