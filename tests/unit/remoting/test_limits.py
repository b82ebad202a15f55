"""What a peer may make a server hold, and for how long it may have the loop."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rocketeer.config import ServerLimits
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, decode, encode, reply, request
from rocketeer.protocol.frame import PREFIX
from rocketeer.remoting.limits import RequestLimits
from rocketeer.remoting.router import Connection, Router
from rocketeer.remoting.server import RemotingServer

SPIN, WAIT, NOW, HUGE, LONG = 901, 902, 903, 904, 905
KB, MB = 1 << 10, 1 << 20


def spin(command: Command, connection: Connection) -> Command:
    until_s = time.monotonic() + 0.003
    while time.monotonic() < until_s:
        pass
    return reply(command)


async def wait(command: Command, connection: Connection) -> Command:
    await asyncio.sleep(0.2)
    return reply(command)


def answer(command: Command, connection: Connection) -> Command:
    return reply(command, body=str(len(command.body)).encode())


def huge(command: Command, connection: Connection) -> Command:
    return reply(command, body=bytes(17 * MB))


def long(command: Command, connection: Connection) -> Command:
    return reply(command, body=bytes(3 * MB))


@asynccontextmanager
async def server(limits: ServerLimits, **bodies: int) -> AsyncIterator[RemotingServer]:
    router = Router(
        {SPIN: spin, WAIT: wait, NOW: answer, HUGE: huge, LONG: long},
        limits=RequestLimits(limits, bodies={NOW: ("limitNow", bodies.get("now", 4 * MB))}),
    )
    running = RemotingServer(router.process, limits=limits)
    await running.start("127.0.0.1", [0])
    try:
        yield running
    finally:
        await running.stop()


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, server: RemotingServer) -> "Peer":
        return cls(*await asyncio.open_connection("127.0.0.1", server.ports[0]))

    async def reply(self) -> Command:
        size = await self.reader.readexactly(4)
        return decode(size + await self.reader.readexactly(int.from_bytes(size, "big")))

    async def ask(self, command: Command) -> Command:
        self.writer.write(encode(command))
        return await self.reply()


@pytest.mark.parametrize("serialize", [0, 1])
async def test_a_huge_header_is_refused_unread_and_the_connection_lives_on(serialize: int) -> None:
    async with server(ServerLimits(header_bytes=64 * KB)) as running:
        peer = await Peer.to(running)
        huge = request(NOW, {"field": "x" * 70_000})
        huge.serialize = serialize
        refused = await peer.ask(huge)
        assert refused.opaque == huge.opaque
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "limitHeaderBytes" in (refused.remark or "")
        assert (await peer.ask(request(NOW))).code == ResponseCode.SUCCESS


async def test_a_huge_header_that_names_no_request_ends_the_connection() -> None:
    async with server(ServerLimits(header_bytes=64 * KB)) as running:
        peer = await Peer.to(running)
        header = b" " * 70_000
        peer.writer.write(PREFIX.pack(4 + len(header), len(header)) + header)
        assert await peer.reader.read() == b""


async def test_a_body_beyond_its_limit_is_refused_with_the_key() -> None:
    async with server(ServerLimits(request_bytes=64 * KB), now=10) as running:
        peer = await Peer.to(running)
        assert "limitNow" in ((await peer.ask(request(NOW, {}, bytes(11)))).remark or "")
        assert (await peer.ask(request(NOW, {}, bytes(10)))).body == b"10"
        assert "limitRequestBytes" in ((await peer.ask(request(SPIN, {}, bytes(65 * KB)))).remark or "")


async def test_requests_under_way_are_bounded_and_the_next_one_is_served_when_they_are_answered() -> None:
    async with server(ServerLimits(requests_under_way=3)) as running:
        peer = await Peer.to(running)
        peer.writer.write(b"".join(encode(request(WAIT)) for _ in range(5)))
        replies = [await peer.reply() for _ in range(5)]
        assert sorted(each.code for each in replies) == [
            0,
            0,
            0,
            ResponseCode.SYSTEM_BUSY,
            ResponseCode.SYSTEM_BUSY,
        ]
        assert (await peer.ask(request(WAIT))).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    "brought",
    [{"ext": {"x": "y" * 40_000}}, {"ext": {f"{n}": "" for n in range(400)}}, {"remark": "r" * 40_000}],
)
async def test_what_requests_under_way_take_is_bounded_for_all_together(brought: dict[str, Any]) -> None:
    def waits() -> Command:
        command = request(WAIT)
        for name, value in brought.items():
            setattr(command, name, value)
        return command

    async with server(ServerLimits(bytes_under_way=1 * MB)) as running:
        greedy = [await Peer.to(running) for _ in range(4)]
        for peer in greedy:
            peer.writer.write(b"".join(encode(waits()) for _ in range(10)))
        refused = await greedy[-1].reply()  # at once
        assert "limitBytesUnderWay" in (refused.remark or "")
        large, small = await Peer.to(running), await Peer.to(running)
        assert (await large.ask(waits())).code == ResponseCode.SYSTEM_BUSY
        assert (await small.ask(request(WAIT))).code == ResponseCode.SUCCESS
        taken = [
            reply.code
            for peer in greedy
            for reply in [await peer.reply() for _ in range(10 - (peer is greedy[-1]))]
        ]
        assert 10 <= taken.count(ResponseCode.SUCCESS) <= 30
        assert (await large.ask(waits())).code == ResponseCode.SUCCESS, "there is room again"


async def test_unfinished_frames_of_all_together_are_bounded_and_the_oldest_goes() -> None:
    """Five peers stop in the middle of a frame; one who sends without a pause is not hit."""
    async with server(ServerLimits(unfinished_bytes=16 * MB)) as running:
        stalled = []
        for _ in range(5):
            peer = await Peer.to(running)
            peer.writer.write(PREFIX.pack(8 * MB, 0) + bytes(5 * MB))
            await peer.writer.drain()
            stalled.append(peer)
        honest = await Peer.to(running)
        assert (await honest.ask(request(NOW, {}, bytes(3 * MB)))).body == str(3 * MB).encode()
        assert await stalled[0].reader.read() == b"", "its frame began first"
        assert await stalled[1].reader.read() == b""
        assert len(running.connections) >= 2


async def test_unread_replies_of_all_together_are_bounded_and_those_go_that_waited_longest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Peers that never read fill the server up to its limit; one who reads late but reads is not hit."""
    limit = 16 * MB
    async with server(ServerLimits(unread_bytes=limit)) as running:
        deaf = [await Peer.to(running) for _ in range(12)]
        slow = await Peer.to(running)
        most = 0
        for peer in deaf:
            peer.writer.write(b"".join(encode(request(LONG)) for _ in range(4)))
            assert len((await slow.ask(request(LONG))).body) == 3 * MB
            most = max(most, sum(each.unread_bytes for each in running.connections))
        assert most <= limit + 16 * MB, "the limit, and what one run of requests adds to it"
        reasons = [
            record.getMessage() for record in caplog.records if "limitUnreadBytes" in record.getMessage()
        ]
        assert reasons
        first = deaf[0].writer.get_extra_info("sockname")
        assert f"remote=127.0.0.1:{first[1]} " in reasons[0], "its replies waited longest"
        assert (await slow.ask(request(NOW))).code == ResponseCode.SUCCESS
        assert len(running.connections) < len(deaf)
        for peer in deaf:
            peer.writer.transport.abort()


async def test_an_answer_that_fits_no_frame_is_an_error_and_costs_nobody_the_connection() -> None:
    async with server(ServerLimits()) as running:
        peer = await Peer.to(running)
        refused = await peer.ask(request(HUGE))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "cannot be sent" in (refused.remark or "")
        assert (await peer.ask(request(NOW))).code == ResponseCode.SUCCESS


async def test_requests_of_one_peer_that_take_long_do_not_keep_others_waiting() -> None:
    """60 requests of 3 ms in one read: 180 ms for them, a turn for everybody else."""
    async with server(ServerLimits()) as running:
        slow, quick = await Peer.to(running), await Peer.to(running)
        await quick.ask(request(NOW))
        asked = [request(SPIN) for _ in range(60)]
        slow.writer.write(b"".join(map(encode, asked)))
        waited_s = []
        done = asyncio.ensure_future(_replies(slow, len(asked)))
        while not done.done():
            began_s = time.monotonic()
            await quick.ask(request(NOW))
            waited_s.append(time.monotonic() - began_s)
        assert await done == [each.opaque for each in asked], "every one is answered, in its order"
        assert len(waited_s) > 10


async def _replies(peer: Peer, count: int) -> list[int]:
    return [(await peer.reply()).opaque for _ in range(count)]
