"""Held pulls: each is answered once, and nothing of it stays behind."""

import gc
import weakref
from collections.abc import Callable

import pytest

from rocketeer.broker.held_pulls import HeldPulls
from rocketeer.config import BrokerLimits
from rocketeer.steps import finish


class Scheduled:
    """Runs what was scheduled when told to."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def __call__(self, job: Callable[[], None]) -> None:
        self.jobs.append(job)

    def run(self) -> None:
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job()


class Pull:
    """Answers at its `good`-th try, or at the last one."""

    def __init__(self, good: int = 1) -> None:
        self.good = good
        self.tries: list[bool] = []

    def retry(self, last: bool) -> bool:
        self.tries.append(last)
        return last or len(self.tries) >= self.good


@pytest.fixture
def scheduled() -> Scheduled:
    return Scheduled()


def test_an_arrival_wakes_those_of_its_queue_only(scheduled: Scheduled) -> None:
    holds = HeldPulls(scheduled, run=list, limits=BrokerLimits())
    mine, other, picky = Pull(), Pull(), Pull(good=2)
    holds.hold("T", 0, 100.0, mine.retry)
    holds.hold("T", 1, 100.0, other.retry)
    holds.hold("T", 0, 100.0, picky.retry)
    holds.arrived("T", 0, 1)
    holds.arrived("T", 0, 2)
    scheduled.run()
    assert (mine.tries, other.tries, picky.tries) == ([False], [], [False])
    assert len(holds) == 2
    finish(holds.expiring(100.0))
    assert (mine.tries, other.tries, picky.tries) == ([False], [True], [False, True])
    assert len(holds) == 0


def test_one_that_fails_keeps_nobody_else_waiting(scheduled: Scheduled) -> None:
    def broken(last: bool) -> bool:
        raise OSError("too many open files")

    holds = HeldPulls(scheduled, run=list, limits=BrokerLimits())
    good = [Pull() for _ in range(20)]
    for number, pull in enumerate(good):
        holds.hold("T", number % 2, 100.0, broken)
        holds.hold("T", number % 2, 100.0, pull.retry)
    holds.arrived("T", 0, 1)
    holds.arrived("T", 1, 1)
    scheduled.run()
    assert all(pull.tries == [False] for pull in good)
    assert len(holds) == 0


def test_whoever_goes_is_forgotten(scheduled: Scheduled) -> None:
    holds = HeldPulls(scheduled, run=list, limits=BrokerLimits())
    gone, staying = Pull(), Pull()
    for queue in range(10):
        holds.hold("T", queue, 100.0, gone.retry, "gone")
        holds.hold("T", queue, 100.0, staying.retry, "staying")
    holds.forget("gone")
    holds.forget("never here")
    assert len(holds) == 10
    holds.wake_all()
    assert gone.tries == []
    assert staying.tries == [True] * 10


def test_an_answered_pull_leaves_nothing_until_its_deadline(scheduled: Scheduled) -> None:
    """A busy consumer holds thousands of pulls a second, each with a deadline far away."""
    holds = HeldPulls(scheduled, run=list, limits=BrokerLimits())
    answered = []
    for number in range(20_000):
        pull = Pull()
        answered.append(weakref.ref(pull))
        holds.hold("T", 0, 1000.0 + number, pull.retry)
        del pull
        holds.arrived("T", 0, number)
        scheduled.run()
    gc.collect()
    assert len(holds) == 0
    assert not any(pull() for pull in answered)
    assert len(holds._deadlines) < 2000
