"""Listeners run where they should, as many at a time as allowed, and none is forgotten."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from rocketeer.client.aio.workers import ListenerJob, TaskWorkers, ThreadWorkers, Workers

WAIT_S = 60


class Listening:
    """A job that is done at once."""

    def __init__(self) -> None:
        self.where = ""

    def run(self) -> None:
        self.where = threading.current_thread().name

    async def run_async(self) -> None:
        self.where = threading.current_thread().name


class Hall:
    """Jobs that stay until they are let go; it counts who is in."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.open = threading.Event()
        self._guard = threading.Lock()

    def enter(self, change: int) -> None:
        with self._guard:
            self.now += change
            self.most = max(self.most, self.now)

    async def holds(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while self.now < count:  # noqa: ASYNC110  # threads come in, too
                await asyncio.sleep(0.005)


class Staying:
    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def run(self) -> None:
        self._hall.enter(1)
        self._hall.open.wait(WAIT_S)
        self._hall.enter(-1)

    async def run_async(self) -> None:
        self._hall.enter(1)
        while not self._hall.open.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        self._hall.enter(-1)


KINDS: list[Callable[..., Workers]] = [ThreadWorkers, TaskWorkers]


@pytest.mark.parametrize("kind", KINDS)
async def test_every_job_is_run_once_and_told_of(kind: Callable[..., Workers]) -> None:
    done: list[ListenerJob] = []
    workers = kind(4, done.extend, "w")
    jobs = [Listening() for _ in range(5000)]
    for at in range(0, 5000, 50):
        workers.submit(jobs[at : at + 50])
        if at % 500 == 0:
            await asyncio.sleep(0)
    assert await workers.wait_idle(WAIT_S)
    assert sorted(done, key=id) == sorted(jobs, key=id)
    workers.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_slow_jobs_run_side_by_side_up_to_the_limit(kind: Callable[..., Workers]) -> None:
    hall = Hall()
    workers = kind(5, lambda jobs: None, "w")
    workers.submit([Staying(hall) for _ in range(10)])
    await hall.holds(5)
    assert not await workers.wait_idle(0.05)
    hall.open.set()
    assert await workers.wait_idle(WAIT_S)
    assert hall.most == 5
    workers.close()


async def test_a_job_that_hangs_does_not_hold_up_the_next_one() -> None:
    done: list[ListenerJob] = []
    first = asyncio.Event()

    def told(jobs: list[ListenerJob]) -> None:
        done.extend(jobs)
        first.set()

    hall = Hall()
    workers = ThreadWorkers(2, told, "w")
    quick = Listening()
    workers.submit([Staying(hall)])
    await hall.holds(1)
    workers.submit([quick])
    await asyncio.wait_for(first.wait(), WAIT_S)
    assert done == [quick]
    hall.open.set()
    assert await workers.wait_idle(WAIT_S)
    workers.close()


async def test_quick_jobs_stay_in_one_thread() -> None:
    jobs = [Listening() for _ in range(200)]
    workers = ThreadWorkers(20, lambda done: None, "w")
    workers.submit(jobs)
    assert await workers.wait_idle(WAIT_S)
    assert len({job.where for job in jobs}) <= 10, "one; not all twenty, however busy the machine is"
    workers.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_paused_workers_begin_nothing(kind: Callable[..., Workers]) -> None:
    done: list[ListenerJob] = []
    workers = kind(2, done.extend, "w")
    workers.pause()
    workers.submit([Listening(), Listening()])
    assert not await workers.wait_idle(0.05)
    assert done == []
    workers.resume()
    assert await workers.wait_idle(WAIT_S)
    assert len(done) == 2
    workers.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_jobs_not_begun_can_be_taken_back(kind: Callable[..., Workers]) -> None:
    done: list[ListenerJob] = []
    hall = Hall()
    workers = kind(1, done.extend, "w")
    jobs = [Staying(hall) for _ in range(50)]
    workers.submit(jobs)
    await hall.holds(1)
    assert workers.clear() == jobs[1:]
    hall.open.set()
    assert await workers.wait_idle(WAIT_S), "what had begun is finished"
    assert done == jobs[:1]
    workers.close()


async def test_a_listener_that_never_waits_leaves_the_loop_its_turns() -> None:
    workers = TaskWorkers(4, lambda jobs: None, "w")
    turns = 0

    class Busy(Listening):
        async def run_async(self) -> None:
            end_s = time.monotonic() + 0.002
            while time.monotonic() < end_s:
                pass

    workers.submit([Busy() for _ in range(100)])
    while workers._running:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 20
    workers.close()
