"""Peers for tests of clients: the real server with a few handlers, and one that behaves as it is told."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from rocketeer.protocol.command import Command, decode_frame, reply, request
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.remoting.router import Connection, Router
from rocketeer.remoting.server import RemotingServer

ECHO, PUSH_BACK, NEVER, SLOW, UNKNOWN = 901, 902, 903, 904, 999


async def push_back(command: Command, connection: Connection) -> Command:
    """Asks the client back, and answers with what the client said."""
    answer = await connection.call(request(int(command.ext["code"]), body=b"pushed"), 2.0)
    return reply(command, answer.code, answer.remark, body=answer.body)


async def slow(command: Command, connection: Connection) -> Command:
    await asyncio.sleep(float(command.ext["s"]))
    return reply(command, body=command.body)


HANDLERS = {
    ECHO: lambda command, connection: reply(command, body=command.body),
    PUSH_BACK: push_back,
    NEVER: lambda command, connection: None,
    SLOW: slow,
}


@contextlib.asynccontextmanager
async def running_server(
    port: int = 0, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[RemotingServer]:
    server = RemotingServer(Router(HANDLERS).process, tls=lambda: tls)
    await server.start(host, [port])
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def peer(
    behave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server that does with each connection whatever the test wants; its address."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def commands(reader: asyncio.StreamReader) -> AsyncIterator[Command]:
    splitter = FrameSplitter()
    while data := await reader.read(1 << 16):
        for frame in splitter.feed(data):
            yield decode_frame(*frame)
