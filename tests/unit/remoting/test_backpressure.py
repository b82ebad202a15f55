"""A peer that asks faster than it reads waits for its answers; it neither fills our memory nor is it thrown out."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from rocketeer.protocol.command import Command, decode_frame, encode, reply, request
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.remoting.connection import READ_PAUSE_BYTES, RUN_FRAMES_MAX
from rocketeer.remoting.router import Connection, Router
from rocketeer.remoting.server import RemotingServer

ANSWER_BYTES = 200_000
QUESTIONS = 600
WAIT_S = 60


@contextlib.asynccontextmanager
async def served(**options: float) -> AsyncIterator[tuple[RemotingServer, int]]:
    def large_answer(command: Command, connection: Connection) -> Command:
        return reply(command, body=b"x" * ANSWER_BYTES)

    server = RemotingServer(Router({1: large_answer}).process, **options)
    await server.start("127.0.0.1", [0])
    try:
        yield server, server.ports[0]
    finally:
        await server.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # there is no event for what the kernel holds
            await asyncio.sleep(0.01)


async def test_all_answers_come_in_order_however_late_they_are_read() -> None:
    async with served() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        questions = [request(1) for _ in range(QUESTIONS)]
        writer.write(b"".join(map(encode, questions)))
        await until(lambda: server.connections)
        (connection,) = server.connections
        await until(lambda: connection.unread_bytes > READ_PAUSE_BYTES)
        most = 0
        for _ in range(20):
            await asyncio.sleep(0.01)
            most = max(most, connection.unread_bytes)
        assert most <= READ_PAUSE_BYTES + RUN_FRAMES_MAX * (ANSWER_BYTES + 500), (
            "one run beyond the mark, no more"
        )

        splitter, opaques = FrameSplitter(), []
        async with asyncio.timeout(WAIT_S):
            while len(opaques) < QUESTIONS:
                data = await reader.read(1 << 20)
                assert data, "thrown out"
                opaques += [decode_frame(*frame).opaque for frame in splitter.feed(data)]
        assert opaques == [question.opaque for question in questions]
        writer.close()


async def test_what_was_asked_before_garbage_is_answered() -> None:
    async with served() as (_, port):
        for garbage in (b"\xff" * 8, encode(request(1)).replace(b'{"code"', b'{"c\0de"')):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            count = RUN_FRAMES_MAX + 3
            writer.write(encode(request(1)) * count + garbage)
            async with asyncio.timeout(WAIT_S):
                answers = FrameSplitter().feed(await reader.read())
            assert len(answers) == count
            writer.close()


async def test_one_who_never_reads_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    async with served(idle_s=0.5) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode(request(1)) * QUESTIONS)
        await until(lambda: any("idle for 0.5 s" in record.getMessage() for record in caplog.records))
        await until(lambda: not server.connections)
        writer.close()
