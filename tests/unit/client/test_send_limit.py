import asyncio
import sys
import threading
import time

import pytest

from rocketeer.client.aio.send_limit import AsyncSendLimit
from rocketeer.client.core.in_flight import InFlight
from rocketeer.client.sync.send_limit import ThreadSendLimit
from rocketeer.errors import ClientClosed, TooManyInFlight


async def test_async_sends_wait_in_the_order_they_came() -> None:
    limit = AsyncSendLimit(InFlight(1, 100), 5)
    await limit.enter(1)
    order: list[int] = []

    async def pass_through(number: int) -> None:
        await limit.enter(1)
        order.append(number)
        limit.leave(1)

    waiting = [asyncio.create_task(pass_through(number)) for number in range(5)]
    await asyncio.sleep(0)
    waiting[2].cancel()
    limit.leave(1)
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order == [0, 1, 3, 4]
    assert await limit.wait_empty(1)


async def test_an_async_send_that_gets_no_place_in_time_says_so() -> None:
    limit = AsyncSendLimit(InFlight(1, 100), 0.01)
    await limit.enter(1)
    with pytest.raises(
        TooManyInFlight, match=r"1 sends are unanswered, .* within 0.01 s \(place_timeout_s\)"
    ):
        await limit.enter(1)
    assert not await limit.wait_empty(0.01)
    limit.leave(1)
    await limit.enter(1)


async def test_who_waits_goes_on_waiting_as_long_as_others_are_answered() -> None:
    limit = AsyncSendLimit(InFlight(1, 100), 0.2)
    await limit.enter(1)
    waiting = [asyncio.create_task(limit.enter(1)) for _ in range(8)]
    for task in waiting:  # each waits longer than the limit, and the last one eight times as long
        await asyncio.sleep(0.1)
        limit.leave(1)
        await task
    last = [asyncio.create_task(limit.enter(1)) for _ in range(3)]
    outcomes = await asyncio.gather(*last, return_exceptions=True)
    assert all(isinstance(outcome, TooManyInFlight) for outcome in outcomes)


async def test_places_that_end_without_an_answer_give_no_hope() -> None:
    limit = AsyncSendLimit(InFlight(1, 100), 0.05)
    await limit.enter(1)
    waiting = [asyncio.create_task(limit.enter(1)) for _ in range(100)]
    outcomes: list[object] = []
    while not all(task.done() for task in waiting):
        await asyncio.sleep(0.03)
        if limit.try_enter(1) or any(task.done() and not task.exception() for task in waiting):
            limit.leave(1, answered=False)
    outcomes = [task.exception() for task in waiting]
    assert sum(isinstance(outcome, TooManyInFlight) for outcome in outcomes) > 50


async def test_giving_up_costs_the_same_however_many_wait() -> None:
    """It was a search through all who wait: 100,000 of them kept a processor busy for minutes."""
    limit = AsyncSendLimit(InFlight(1, 100), 60)
    await limit.enter(1)
    many = 3_000 if sys.flags.dev_mode else 30_000  # a task costs a millisecond there
    waiting = [asyncio.create_task(limit.enter(1)) for _ in range(many)]
    await asyncio.sleep(0)
    began_s = time.process_time()
    for task in reversed(waiting):
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert time.process_time() - began_s < 10
    limit.leave(1)
    assert limit.try_enter(1)


async def test_closing_sends_away_who_waits() -> None:
    limit = AsyncSendLimit(InFlight(1, 100), 60)
    await limit.enter(1)
    waiting = asyncio.create_task(limit.enter(1))
    await asyncio.sleep(0)
    limit.close()
    with pytest.raises(ClientClosed):
        await waiting


def test_threads_wait_until_there_is_a_place() -> None:
    limit = ThreadSendLimit(InFlight(2, 100), 10)
    peak: list[int] = []
    inside: list[int] = []
    lock = threading.Lock()

    def pass_through() -> None:
        for _ in range(50):
            limit.enter(1)
            with lock:
                inside.append(1)
                peak.append(len(inside))
            with lock:
                inside.pop()
            limit.leave(1)

    threads = [threading.Thread(target=pass_through) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(peak) == 300
    assert max(peak) <= 2


def test_a_closed_gate_lets_nobody_in_and_wakes_who_waits() -> None:
    limit = ThreadSendLimit(InFlight(1, 100), 10)
    limit.enter(1)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            limit.enter(1)
        except ClientClosed as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert not limit.close(0.05), "one is still inside"
    thread.join(30)
    assert len(errors) == 1
    with pytest.raises(ClientClosed):
        limit.enter(1)
    limit.leave(1)
    assert limit.close(1)


def test_a_thread_that_gets_no_place_in_time_says_so() -> None:
    limit = ThreadSendLimit(InFlight(1, 100), 0.01)
    limit.enter(1)
    with pytest.raises(TooManyInFlight, match="place_timeout_s"):
        limit.enter(1)
