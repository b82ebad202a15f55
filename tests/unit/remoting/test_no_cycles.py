"""What a request, a refusal or a broken connection has used is free when it ends: it does not wait for the collector.

A server collects cycles seldom (`cli/serve.py`), and a cycle around an error holds everything its trace saw.
"""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Iterator
from types import FrameType
from typing import Any

import pytest

from rocketeer.errors import BadBody, ConnectionLost, RequestRefused, RocketeerError
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, decode, encode, reply, request
from rocketeer.remoting.connection import RUN_FRAMES_MAX
from rocketeer.remoting.router import Connection, Router
from rocketeer.remoting.server import RemotingServer
from rocketeer.remoting.slices import SLICE_S, in_slices, run_sliced
from rocketeer.steps import Steps

REFUSED, LATE, SLICED, AWAITED, ASKS, FINE = range(901, 907)
MANY = 20


def refused(command: Command, connection: Connection) -> Command:
    raise RequestRefused(ResponseCode.SYSTEM_ERROR, "no")


async def late(command: Command, connection: Connection) -> Command:
    await asyncio.sleep(0)
    raise BadBody("no")


def broken_steps() -> Steps[Command]:
    until_s = asyncio.get_running_loop().time() + 2 * SLICE_S  # longer than what is answered at once
    while asyncio.get_running_loop().time() < until_s:
        yield
    raise BadBody("no")


async def awaited(command: Command, connection: Connection) -> Command:
    return await in_slices(broken_steps())


async def asks(command: Command, connection: Connection) -> Command:
    with contextlib.suppress(ConnectionLost):
        await connection.call(request(FINE), timeout_s=30)
    return reply(command)


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[RemotingServer]:
    router = Router(
        {
            REFUSED: refused,
            LATE: late,
            SLICED: lambda command, connection: run_sliced(broken_steps()),
            AWAITED: awaited,
            ASKS: asks,
            FINE: lambda command, connection: reply(command),
        }
    )
    server = RemotingServer(router.process)
    await server.start("127.0.0.1", [0])
    try:
        yield server
    finally:
        await server.stop()


@contextlib.contextmanager
def uncollected() -> Iterator[list[Any]]:
    """What only the collector could have freed, of ours."""
    found: list[Any] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += [each for each in gc.garbage if _is_ours(each)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _is_ours(thing: object) -> bool:
    if isinstance(thing, FrameType):
        return "/src/rocketeer/" in thing.f_code.co_filename
    return isinstance(thing, RocketeerError | Connection | Command)


async def all_gone(server: RemotingServer) -> None:
    async with asyncio.timeout(30):
        while server.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("code", [REFUSED, LATE, SLICED, AWAITED, FINE, 9999])
async def test_an_answered_request_leaves_nothing(code: int) -> None:
    async with served() as server:
        with uncollected() as left:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
            for _ in range(MANY):
                writer.write(encode(request(code, {}, b"x" * 1000)))
                size = await reader.readexactly(4)
                assert decode(size + await reader.readexactly(int.from_bytes(size, "big"))).flag & 1
            writer.close()
            await all_gone(server)
        assert left == []


GOOD = encode(request(FINE))
NO_JSON = encode(request(FINE)).replace(b'{"code"', b'{"c\0de"')


@pytest.mark.parametrize(
    "data",
    [NO_JSON, GOOD * 3 + NO_JSON, GOOD * (RUN_FRAMES_MAX + 3) + NO_JSON, b"\xff" * 8, GOOD + b"\xff" * 8, GOOD[:30]],
    ids=["header", "header behind others", "header in a later turn", "length", "length behind others", "half a frame"],
)  # fmt: skip
async def test_a_connection_that_breaks_the_protocol_leaves_nothing(data: bytes) -> None:
    async with served() as server:
        with uncollected() as left:
            for _ in range(MANY):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
                writer.write(data)
                writer.write_eof()
                await reader.read()
                writer.close()
            await all_gone(server)
        assert left == []


async def test_a_peer_that_goes_instead_of_answering_leaves_nothing() -> None:
    async with served() as server:
        with uncollected() as left:
            for _ in range(MANY):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
                writer.write(encode(request(ASKS)))
                await reader.readexactly(4)  # the question
                writer.transport.abort()
            await all_gone(server)
        assert left == []
