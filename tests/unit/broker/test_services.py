"""Periodic services: they go on whatever happens, rest when there is nothing to do, and wake when told to."""

import asyncio
import gc
import logging
import warnings
from collections.abc import Awaitable, Callable

import pytest

from rocketeer.broker.feature import IdlePause, Periodic
from rocketeer.broker.services import Services

WAIT_S = 30
LONG_S = 3600.0


async def run_until(reached: asyncio.Event, *services: Periodic) -> None:
    running = Services(services)
    running.start()
    try:
        await asyncio.wait_for(reached.wait(), WAIT_S)
    finally:
        await running.stop()


def counting(most: int, reached: asyncio.Event) -> tuple[list[int], Callable[[], None]]:
    runs: list[int] = []

    def run() -> None:
        runs.append(len(runs))
        if len(runs) == most:
            reached.set()

    return runs, run


async def test_one_that_fails_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    reached = asyncio.Event()
    runs, run = counting(3, reached)

    def failing() -> None:
        run()
        raise ValueError("no luck")

    with caplog.at_level(logging.ERROR):
        await run_until(reached, Periodic("unlucky", 0.001, failing))
    assert len(runs) >= 3
    assert "service failed name=unlucky" in caplog.text


async def test_what_a_run_waits_for_ends_before_the_next_begins() -> None:
    reached = asyncio.Event()
    story: list[str] = []

    def run() -> Awaitable[None]:
        story.append("begin")

        async def rest() -> None:
            await asyncio.sleep(0.005)
            story.append("end")
            if len(story) >= 6:
                reached.set()

        return rest()

    await run_until(reached, Periodic("slow", 0.0005, run))
    assert story[:6] == ["begin", "end"] * 3


async def test_one_that_is_stopped_before_its_run_has_begun_leaves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stopping: list[asyncio.Task[None]] = []
    reached = asyncio.Event()

    async def rest() -> None:
        raise AssertionError("it was stopped before")

    def run() -> Awaitable[None]:
        stopping.append(
            asyncio.create_task(services.stop())
        )  # its turn comes before that of what is returned here
        reached.set()
        return rest()

    services = Services([Periodic("late", 0.001, run)])
    services.start()
    await asyncio.wait_for(reached.wait(), WAIT_S)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        await stopping[0]
        gc.collect()  # "coroutine ... was never awaited" is said when it is collected
    # What other tests left to collect may be complained about as well.
    assert [warning for warning in told if "never awaited" in str(warning.message)] == []
    assert [record for record in caplog.records if record.name == "rocketeer.broker.services"] == [], "it ran"


async def test_what_a_run_waits_for_may_fail_and_it_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    reached = asyncio.Event()
    runs, count = counting(3, reached)

    async def failing() -> None:
        count()
        await asyncio.sleep(0)
        raise ValueError("no luck")

    with caplog.at_level(logging.ERROR):
        await run_until(reached, Periodic("unlucky", 0.001, failing))
    assert len(runs) >= 3
    assert "service failed name=unlucky" in caplog.text
    assert "no luck" in caplog.text


async def test_an_idle_service_rests_until_it_is_woken() -> None:
    """The rest is an hour: only `wake` can end it within the test."""
    busy = True
    reached, again = asyncio.Event(), asyncio.Event()
    runs: list[bool] = []

    def run() -> None:
        nonlocal busy
        runs.append(busy)
        if len(runs) == 3:
            busy = False
            reached.set()
        if len(runs) == 4:
            again.set()

    rest = IdlePause(lambda: not busy, LONG_S)
    services = Services([Periodic("store", 0.001, run, rest)])
    services.start()
    await asyncio.wait_for(reached.wait(), WAIT_S)
    rest.wake()
    await asyncio.wait_for(again.wait(), WAIT_S)
    await services.stop()
    assert runs == [True, True, True, False]
    rest.wake()
    await asyncio.sleep(0.01)
    assert len(runs) == 4, "a stopped service is not woken"


async def test_waking_a_service_that_does_not_rest_changes_nothing() -> None:
    reached = asyncio.Event()
    runs, run = counting(5, reached)
    rest = IdlePause(lambda: False, LONG_S)

    def woken() -> None:
        rest.wake()
        run()

    await run_until(reached, Periodic("busy", 0.001, woken, rest))
    assert len(runs) == 5


async def test_a_service_that_wakes_itself_does_not_run_twice() -> None:
    reached = asyncio.Event()
    rest = IdlePause(lambda: True, 0.001)
    runs: list[int] = []

    def run() -> None:
        runs.append(1)
        rest.interval_s = LONG_S
        rest.wake()
        reached.set()

    services = Services([Periodic("self", 0.001, run, rest)])
    services.start()
    await asyncio.wait_for(reached.wait(), WAIT_S)
    await asyncio.sleep(0.05)
    await services.stop()
    assert len(runs) == 1, "it rests for an hour now"
