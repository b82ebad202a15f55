import asyncio
import threading

import pytest

from rocketeer.client.aio.send_limit import AsyncSendLimit
from rocketeer.client.core.in_flight import InFlight
from rocketeer.client.sync.send_limit import ThreadSendLimit
from rocketeer.errors import ClientClosed, TooManyInFlight


def test_places_and_bytes_are_limited_but_one_always_passes() -> None:
    flight = InFlight(2, 100)
    assert flight.try_enter(500), "alone, anything passes"
    assert not flight.try_enter(1)
    flight.leave(500)
    assert flight.try_enter(60)
    assert not flight.try_enter(60)
    assert flight.try_enter(40)
    assert not flight.try_enter(0)


async def test_async_sends_wait_in_the_order_they_came() -> None:
    limit = AsyncSendLimit(InFlight(1, 100))
    await limit.enter(1, 1)
    order: list[int] = []

    async def pass_through(number: int) -> None:
        await limit.enter(1, 5)
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
    limit = AsyncSendLimit(InFlight(1, 100))
    await limit.enter(1, 1)
    with pytest.raises(TooManyInFlight, match="1 sends are unanswered"):
        await limit.enter(1, 0.01)
    assert not await limit.wait_empty(0.01)
    limit.leave(1)
    await limit.enter(1, 1)


def test_threads_wait_until_there_is_a_place() -> None:
    limit = ThreadSendLimit(InFlight(2, 100))
    peak: list[int] = []
    inside: list[int] = []
    lock = threading.Lock()

    def pass_through() -> None:
        for _ in range(50):
            limit.enter(1, 10)
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
    limit = ThreadSendLimit(InFlight(1, 100))
    limit.enter(1, 1)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            limit.enter(1, 10)
        except ClientClosed as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert not limit.close(0.05), "one is still inside"
    thread.join(30)
    assert len(errors) == 1
    with pytest.raises(ClientClosed):
        limit.enter(1, 1)
    limit.leave(1)
    assert limit.close(1)


def test_a_thread_that_gets_no_place_in_time_says_so() -> None:
    limit = ThreadSendLimit(InFlight(1, 100))
    limit.enter(1, 1)
    with pytest.raises(TooManyInFlight):
        limit.enter(1, 0.01)
