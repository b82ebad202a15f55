"""However many wait for an answer that does not come, the loop is never kept by all of them at once."""

import asyncio
from functools import partial

import pytest

from rocketeer.errors import CallTimeout, ConnectionLost
from rocketeer.protocol.command import encode, request
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.failed_calls import CALLS_A_TURN, fail_calls
from rocketeer.remoting.server import RemotingServer

WAITERS = 10 * CALLS_A_TURN


async def test_waiters_are_told_a_few_in_each_turn_of_the_loop() -> None:
    loop = asyncio.get_running_loop()
    waiters: list[asyncio.Future[None]] = [loop.create_future() for _ in range(WAITERS)]
    waiters[0].cancel()
    waiters[1].set_result(None)

    fail_calls(waiters[:100], partial(ConnectionLost, "10.0.0.1:1"))
    fail_calls(waiters[100:], partial(ConnectionLost, "10.0.0.2:2"))  # both share what is told in a turn
    told, turns = sum(waiter.done() for waiter in waiters), 0
    while told < WAITERS:
        await asyncio.sleep(0)
        now = sum(waiter.done() for waiter in waiters)
        assert now - told <= CALLS_A_TURN
        told, turns = now, turns + 1
        assert turns <= 2 * WAITERS / CALLS_A_TURN, "the loop does not go on with it"

    errors = await asyncio.gather(*waiters[2:], return_exceptions=True)
    assert all(isinstance(error, ConnectionLost) for error in errors)
    assert "10.0.0.1:1" in str(errors[0])
    assert "10.0.0.2:2" in str(errors[-1])
    assert waiters[0].cancelled()
    assert waiters[1].result() is None


async def test_those_who_are_lost_later_are_told_too() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(3):
        waiter: asyncio.Future[None] = loop.create_future()
        fail_calls([waiter], partial(ConnectionLost, "10.0.0.1:1"))
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(waiter, 10)


async def test_calls_whose_time_is_over_at_once_are_told_a_few_in_each_turn_of_the_loop() -> None:
    """A peer that answers nothing, and hundreds of questions to it that began together."""
    opened: list[Connection] = []
    server = RemotingServer(lambda frames, connection: opened.append(connection))
    await server.start("127.0.0.1", [0])
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
        writer.write(encode(request(1)))
        async with asyncio.timeout(30):
            while not opened:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.01)
        calls = [asyncio.ensure_future(opened[0].call(request(2), 0.5)) for _ in range(WAITERS)]
        told = 0
        async with asyncio.timeout(60):
            while told < WAITERS:
                await asyncio.sleep(0)
                now = sum(call.done() for call in calls)
                assert now - told <= CALLS_A_TURN
                told = now
        assert all(isinstance(call.exception(), CallTimeout) for call in calls)
        writer.close()
    finally:
        await server.stop()
