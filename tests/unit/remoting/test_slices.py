"""Long work on the loop: in slices, in turns, and never more than one slice in a turn."""

import asyncio
import time

import pytest

from rocketeer.remoting.slices import AT_ONCE_MAX, SLICE_S, Slicer, in_slices, run_sliced
from rocketeer.steps import Steps


def busy(seconds: float) -> Steps[str]:
    """Work for so long, in steps of 0.1 ms."""
    for _ in range(int(seconds / 0.0001)):
        until = time.perf_counter() + 0.0001
        while time.perf_counter() < until:
            pass
        yield
    return "done"


async def test_what_is_short_is_done_at_once() -> None:
    for _ in range(100):
        outcome = run_sliced(busy(0.0005))
        if outcome == "done":
            return
        assert isinstance(outcome, asyncio.Future)
        await outcome  # the processor was busy with something else for the rest of the slice
    raise AssertionError("it was never done at once")


async def test_the_loop_serves_others_between_two_slices() -> None:
    work = asyncio.ensure_future(in_slices(busy(40 * SLICE_S)))
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    assert await work == "done"
    assert turns > 20


async def test_many_jobs_share_one_slice_a_turn() -> None:
    """However many there are: a turn of the loop stays as short as with one."""
    work = [asyncio.ensure_future(in_slices(busy(2 * SLICE_S))) for _ in range(20)]
    turns = 0
    while not all(job.done() for job in work):
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20, "all of them in every turn would be two turns"


async def test_what_is_short_does_not_wait_behind_what_is_long() -> None:
    slicer = Slicer()
    long = [slicer.run(busy(20 * SLICE_S)) for _ in range(5)]
    done = 0
    while not all(isinstance(job, asyncio.Future) and job.done() for job in long):
        await asyncio.sleep(0)
        done += slicer.run(busy(0)) == "done"
    assert done > 20, "hardly any was done at once"


async def test_many_that_come_at_once_do_not_have_a_go_each() -> None:
    """As when a thousand connections are lost together: what was begun does not keep the loop for long."""
    slicer = Slicer()
    first = slicer.run(busy(5 * SLICE_S))
    assert isinstance(first, asyncio.Future)
    await asyncio.sleep(0)
    began = 0

    def counting() -> Steps[None]:
        nonlocal began
        began += 1
        yield from busy(2 * SLICE_S)

    jobs = [slicer.run(counting()) for _ in range(200)]
    assert began < 100
    for job in jobs:
        assert isinstance(job, asyncio.Future)
        job.cancel()
    await first


async def test_a_failure_reaches_whoever_waits_and_no_other() -> None:
    def failing() -> Steps[None]:
        yield from busy(2 * SLICE_S)
        raise ValueError("this one")

    bad, good = asyncio.ensure_future(in_slices(failing())), asyncio.ensure_future(in_slices(busy(SLICE_S)))
    with pytest.raises(ValueError, match="this one"):
        await bad
    assert await good == "done"


async def test_work_nobody_waits_for_any_more_ends() -> None:
    ended = []

    def watched() -> Steps[None]:
        try:
            yield from busy(1)
        finally:
            ended.append(True)

    slicer = Slicer()
    outcome = slicer.run(watched())
    assert isinstance(outcome, asyncio.Future)
    outcome.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ended
    assert len(slicer) == 0


async def test_only_the_oldest_jobs_are_half_done() -> None:
    slicer = Slicer(slice_s=0.0002)
    begun: list[int] = []

    def job(number: int) -> Steps[int]:
        begun.append(number)
        for _ in range(50):
            until = time.perf_counter() + 0.0001
            while time.perf_counter() < until:
                pass
            yield
        return number

    jobs = [slicer.run(in_the_queue(job(number))) for number in range(3 * AT_ONCE_MAX)]
    ended: list[int] = []
    for future in jobs:
        assert isinstance(future, asyncio.Future)
        future.add_done_callback(lambda each: ended.append(each.result()))
    while len(ended) < len(jobs):
        assert len(begun) - len(ended) <= AT_ONCE_MAX + 1
        await asyncio.sleep(0)
    assert sorted(begun) == begun


def in_the_queue(steps: Steps[int]) -> Steps[int]:
    """Nothing of it is done before it is in the queue."""
    yield from [None] * 3
    time.sleep(0.0003)
    yield
    return (yield from steps)
