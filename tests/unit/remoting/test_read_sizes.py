"""A peer whose bytes are expensive to serve is read in small pieces, so that others need not wait for a large one."""

import asyncio
import time

import pytest

from rocketeer.compiled import COMPILED_STREAMS
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.server import RemotingServer

MOST_BYTES = 256 << 10
LEAST_BYTES = 32 << 10
SENT = bytes(48 << 20)


class Front:
    """Takes all bytes; while `expensive`, each read costs it some milliseconds of the processor."""

    def __init__(self) -> None:
        self.expensive = True
        self.sizes: list[int] = []

    def serve(self, data: bytes, connection: Connection) -> int:
        until_s = time.thread_time() + 0.005
        while self.expensive and time.thread_time() < until_s:
            pass
        self.sizes.append(len(data))
        self.expensive = self.expensive and len(self.sizes) < 40
        return len(data)


async def test_reads_become_small_while_they_are_expensive_and_large_again_afterwards() -> None:
    if not COMPILED_STREAMS:
        pytest.skip("the reads of this loop are not ours")
    front = Front()
    server = RemotingServer(lambda frames, connection: None, serve_front=front.serve)
    await server.start("127.0.0.1", [0])
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
        writer.write(SENT)
        async with asyncio.timeout(60):
            await writer.drain()
            while sum(front.sizes) < len(SENT):  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.01)
        writer.close()
    finally:
        await server.stop()
    assert max(front.sizes[20:40]) <= LEAST_BYTES
    assert max(front.sizes[40:]) > 4 * LEAST_BYTES
    assert max(front.sizes) <= MOST_BYTES
