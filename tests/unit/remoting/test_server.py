"""Laws of the server: garbage costs its sender the connection and nobody else anything."""

import asyncio
import contextlib
import gc
import logging
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rocketeer.errors import PortInUse, RequestRefused
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, decode, encode, reply, request
from rocketeer.remoting.router import Connection, Router
from rocketeer.remoting.server import RemotingServer, SocketSizes

ECHO = 7001
SLOW = 7002
REFUSE = 7003
BROKEN = 7004
ASK_BACK = 7005


class Peer:
    """A raw client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def receive(self) -> Command:
        prefix = await asyncio.wait_for(self.reader.readexactly(4), 10)
        return decode(prefix + await self.reader.readexactly(struct.unpack(">i", prefix)[0]))

    async def ask(self, command: Command) -> Command:
        self.writer.write(encode(command))
        return await self.receive()

    async def closed(self) -> bool:
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(self.reader.read(), 10) == b""
        return True


Connect = Callable[[], Awaitable[Peer]]


@contextlib.asynccontextmanager
async def serving(**options: float) -> AsyncIterator[tuple[RemotingServer, Connect]]:
    def echo(command: Command, connection: Connection) -> Command:
        return reply(command, ext=command.ext, body=command.body)

    async def slow(command: Command, connection: Connection) -> Command:
        await asyncio.sleep(0.01)
        return reply(command, remark="slow")

    def refuse(command: Command, connection: Connection) -> Command:
        raise RequestRefused(ResponseCode.NO_PERMISSION, "not for you")

    def broken(command: Command, connection: Connection) -> Command:
        raise ZeroDivisionError("our own bug")

    async def ask_back(command: Command, connection: Connection) -> Command:
        answer = await connection.call(request(9001), timeout_s=5)
        return reply(command, remark=answer.remark)

    router = Router({ECHO: echo, SLOW: slow, REFUSE: refuse, BROKEN: broken, ASK_BACK: ask_back})
    server = RemotingServer(router.process, **options)  # type: ignore[arg-type]
    await server.start("127.0.0.1", [0])
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> Peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
        writers.append(writer)
        return Peer(reader, writer)

    try:
        yield server, connect
    finally:
        for writer in writers:
            writer.close()
        await server.stop()


async def test_every_request_of_one_write_is_answered_and_pairs_by_opaque() -> None:
    async with serving() as (_, connect):
        peer = await connect()
        commands = [request(ECHO, {"n": str(n)}) for n in range(50)]
        peer.writer.write(b"".join(map(encode, commands)))
        answers = {(answer := await peer.receive()).opaque: answer for _ in commands}
        assert {c.opaque: c.ext["n"] for c in commands} == {o: a.ext["n"] for o, a in answers.items()}


async def test_a_slow_handler_does_not_hold_up_the_quick_one_behind_it() -> None:
    async with serving() as (_, connect):
        peer = await connect()
        peer.writer.write(encode(request(SLOW)) + encode(request(ECHO)))
        assert (await peer.receive()).remark is None
        assert (await peer.receive()).remark == "slow"


async def test_refusals_bugs_and_unknown_codes_are_answers(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (_, connect):
        peer = await connect()
        refused = await peer.ask(request(REFUSE))
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "not for you")
        bug = await peer.ask(request(BROKEN))
        assert (bug.code, bug.remark) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: our own bug")
        assert any("request failed" in r.message for r in caplog.records), "our own bugs leave a trace"
        unknown = await peer.ask(request(9999))
        assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert unknown.remark == " request type 9999 not supported"


async def test_a_oneway_request_gets_no_answer() -> None:
    async with serving() as (_, connect):
        peer = await connect()
        peer.writer.write(encode(request(REFUSE, oneway=True)) + encode(request(ECHO, oneway=True)))
        assert (await peer.ask(request(ECHO, {"a": "b"}))).ext == {"a": "b"}


async def test_the_server_can_ask_its_client_on_the_same_connection() -> None:
    async with serving() as (_, connect):
        peer = await connect()
        peer.writer.write(encode(request(ASK_BACK)))
        question = await peer.receive()
        assert question.code == 9001
        assert (await peer.ask(reply(question, remark="fine"))).remark == "fine"


HEADER_BOMB = b'{"code":' + b"[" * 20_000 + b"]" * 20_000 + b"}"


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -1) + b"x" * 8,
        struct.pack(">i", 0) + b"x" * 8,
        struct.pack(">iI", (16 << 20) + 1, 10),
        struct.pack(">iI", 20, 100) + b"x" * 16,
        struct.pack(">iI", 20, 7 << 24 | 5) + b"x" * 16,
        struct.pack(">iI", 4 + 9, 9) + b'{"code":x',
        struct.pack(">iI", 4 + 4, 4) + b"\xff\xfe\xfd\xfc",
        struct.pack(">iI", 4 + len(HEADER_BOMB), len(HEADER_BOMB)) + HEADER_BOMB,
        struct.pack(">iI", 4 + 6, 1 << 24 | 6) + b"\0\1\2\3\4\5",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["negative", "zero", "too large", "lying header", "unknown kind", "not json", "not utf-8", "bomb", "short binary",
         "http", "tls"],
)  # fmt: skip
async def test_garbage_closes_its_connection_with_one_line_and_no_other_notices(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with serving() as (_, connect):
        good, bad = await connect(), await connect()
        await good.ask(request(ECHO))
        bad.writer.write(garbage)
        assert await bad.closed()
        assert (await good.ask(request(ECHO, {"still": "here"}))).ext == {"still": "here"}
    assert len([r for r in caplog.records if "connection closed" in r.message]) == 1


async def test_what_came_before_the_garbage_is_still_answered() -> None:
    async with serving() as (_, connect):
        peer = await connect()
        peer.writer.write(encode(request(ECHO, {"a": "1"})) + struct.pack(">i", -5) + b"xxxx")
        assert (await peer.receive()).ext == {"a": "1"}
        assert await peer.closed()


async def test_silent_and_stalled_connections_are_closed() -> None:
    async with serving(idle_s=1, frame_s=0.2) as (server, connect):
        never_spoke = await connect()
        fell_silent = await connect()
        await fell_silent.ask(request(ECHO))
        assert await never_spoke.closed()
        assert await fell_silent.closed()
        assert not server.connections


class Turns:
    """What was seen in which turn of the loop."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self._turn = 0
        self._next()

    def _next(self) -> None:
        self._turn += 1
        self._timer = asyncio.get_running_loop().call_soon(self._next)

    def see(self) -> None:
        """It takes some time."""
        self.seen[self._turn] += 1
        until_s = time.perf_counter() + 0.0006
        while time.perf_counter() < until_s:
            pass

    def stop(self) -> None:
        self._timer.cancel()


class SeenLines(logging.Handler):
    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def emit(self, record: logging.LogRecord) -> None:
        if "idle for" in record.getMessage():
            self._turns.see()


async def test_many_that_fall_silent_together_are_closed_a_few_at_a_time() -> None:
    async with serving(idle_s=1) as (server, connect):
        turns = Turns()
        handler = SeenLines(turns)
        logging.getLogger("rocketeer.remoting.connection").addHandler(handler)
        try:
            peers = [await connect() for _ in range(60)]
            for peer in peers:
                await peer.ask(request(ECHO))
            for peer in peers:
                assert await peer.closed()
        finally:
            logging.getLogger("rocketeer.remoting.connection").removeHandler(handler)
            turns.stop()
        assert sum(turns.seen.values()) == 60
        assert max(turns.seen.values()) <= 5
        await asyncio.sleep(0.1)
        assert not server.connections


async def test_a_sender_that_drips_one_frame_for_ever_is_closed() -> None:
    async with serving(idle_s=60, frame_s=0.2) as (_, connect):
        peer = await connect()
        whole = encode(request(ECHO, body=b"x" * 1000))
        closed = asyncio.create_task(peer.closed())
        for byte in whole[:-1]:
            if closed.done():
                break
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0.005)
        assert await asyncio.wait_for(closed, 10)


async def test_a_peer_that_does_not_read_is_not_read_from_either() -> None:
    """The requests of one who leaves its replies lying stay in its own socket, not in our memory."""
    async with serving() as (server, connect):
        peer = await connect()
        peer.reader._limit = 1  # type: ignore[attr-defined]  # stop asyncio from reading ahead for us
        frame = encode(request(ECHO, body=b"x" * 100_000))
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 2_000:
                peer.writer.write(frame)
                await asyncio.wait_for(peer.writer.drain(), 1)
                sent += 1
        assert sent < 2_000, "back-pressure must reach the sender"
        (connection,) = server.connections
        transport = connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 16 << 20
        other = await connect()
        assert (await other.ask(request(ECHO))).code == 0
        peer.writer.transport.abort()


async def test_a_port_in_use_is_said_and_nothing_stays_open() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = RemotingServer(Router({}).process)
        with pytest.raises(PortInUse, match=str(port)):
            await server.start("127.0.0.1", [0, port])
        assert server.ports == []


async def test_a_connections_buffers_have_the_sizes_asked_for() -> None:
    seen: list[tuple[int, int]] = []

    def look(command: Command, connection: Connection) -> Command:
        assert connection._transport is not None
        accepted = connection._transport.get_extra_info("socket")
        sizes = [
            accepted.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_SNDBUF, socket.SO_RCVBUF)
        ]
        seen.append((sizes[0], sizes[1]))
        return reply(command)

    server = RemotingServer(Router({ECHO: look}).process, sizes=SocketSizes(7, 50_000, 60_000))
    await server.start("127.0.0.1", [0])
    try:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", server.ports[0]))
        await peer.ask(request(ECHO))
        peer.writer.close()
    finally:
        await server.stop()
    assert seen == [(100_000, 120_000)], "Linux doubles them"


def living_connections() -> int:
    return sum(isinstance(each, Connection) for each in gc.get_objects())


async def test_a_connection_that_ended_leaves_no_cycle_behind() -> None:
    """Peers come and go by the thousand; nobody should have to look for what they left."""
    gc.collect()
    before = living_connections()
    gc.disable()
    try:
        async with serving() as (_, connect):
            peer = await connect()
            assert (await peer.ask(request(ECHO))).code == 0
            assert living_connections() == before + 1
            peer.writer.transport.abort()
            async with asyncio.timeout(30):
                while living_connections() > before:  # noqa: ASYNC110  # it has no event for that
                    await asyncio.sleep(0.01)
    finally:
        gc.enable()
