"""Our own transport: what asyncio promises a protocol, on real sockets, however little the kernel takes at a time."""

import asyncio
import contextlib
import errno
import gc
import random
import socket
import time
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.compiled import COMPILED_STREAMS
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.streams import SocketPoller, Stream

pytestmark = pytest.mark.skipif(not COMPILED_STREAMS, reason="only where it is compiled")
WAIT_S = 30
SMALL_BUFFER = 4096


class Seen:
    """A protocol that keeps what it was told."""

    def __init__(self) -> None:
        self.data = b""
        self.taken_before: list[int] = []
        self.events: list[object] = []
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.lost = asyncio.Event()
        self.unread_most = 0
        self.stream: Stream

    def stream_made(self, stream: Stream) -> None:
        self.stream = stream
        self.events.append("made")

    def data_received(self, data: bytes, taken: int) -> None:
        self.data += data
        self.taken_before.append(taken)
        self.on_data(data)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def replies_unread(self, unread_bytes: int) -> None:
        self.unread_most = max(self.unread_most, unread_bytes)

    def eof_received(self) -> None:
        self.events.append("end")

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append(("lost", type(error)))
        self.lost.set()


class Pair:
    """A stream and its peer's end of the socket."""

    def __init__(
        self,
        poller: SocketPoller,
        take: Callable[[bytes, Any], int] | None = None,
        seen: Seen | None = None,
    ) -> None:
        served, self.peer = socket.socketpair()
        for sock in (served, self.peer):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        self.seen = seen or Seen()
        self.served = served
        self.stream = Stream(poller, served, cast(Connection, self.seen), take)
        self.loop = asyncio.get_running_loop()

    async def read(self, size: int) -> bytes:
        got = b""
        async with asyncio.timeout(WAIT_S):
            while len(got) < size:
                more = await self.loop.sock_recv(self.peer, 1 << 16)
                if not more:
                    break
                got += more
        return got

    async def write(self, data: bytes) -> None:
        async with asyncio.timeout(WAIT_S):
            await self.loop.sock_sendall(self.peer, data)

    async def lost(self) -> object:
        async with asyncio.timeout(WAIT_S):
            await self.seen.lost.wait()
        return self.seen.events[-1]


@contextlib.asynccontextmanager
async def turns() -> AsyncIterator[SocketPoller]:
    poller = SocketPoller(asyncio.get_running_loop())
    poller.start()
    try:
        yield poller
    finally:
        poller.close()
        poller.close()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110  # what the kernel does has no event
            await asyncio.sleep(0.001)


async def test_what_comes_is_given_to_the_protocol() -> None:
    async with turns() as poller:
        pair = Pair(poller)
        data = random.Random(1).randbytes(1_000_000)
        await pair.write(data)
        await until(lambda: len(pair.seen.data) == len(data))
        assert pair.seen.data == data
        assert set(pair.seen.taken_before) == {-1}
        pair.peer.close()
        assert await pair.lost() == ("lost", type(None))
        assert pair.served.fileno() == -1


async def test_many_that_go_together_are_told_of_a_few_at_a_time() -> None:
    loop = asyncio.get_running_loop()
    turn = 0
    told: Counter[int] = Counter()

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        timers[0] = loop.call_soon(next_turn)

    class SlowToLeave(Seen):
        def connection_lost(self, error: Exception | None) -> None:
            told[turn] += 1
            time.sleep(0.0006)
            super().connection_lost(error)

    async with turns() as poller:
        pairs = [Pair(poller, seen=SlowToLeave()) for _ in range(100)]
        timers = [loop.call_soon(next_turn)]
        for pair in pairs[:50]:
            pair.peer.close()
        for pair in pairs[50:]:
            pair.stream.abort()
        for pair in pairs:
            await pair.lost()
            assert pair.served.fileno() == -1
        timers[0].cancel()
    assert sum(told.values()) == 100
    assert max(told.values()) <= 2


async def test_between_frames_the_taker_is_asked_first() -> None:
    asked: list[bytes] = []

    def take(data: bytes, protocol: Any) -> int:
        asked.append(data)
        return data.find(b"!") + 1

    async with turns() as poller:
        pair = Pair(poller, take)
        await pair.write(b"all!")
        await until(lambda: asked == [b"all!"])
        assert pair.seen.data == b""
        await pair.write(b"some!more")
        await until(lambda: pair.seen.data)
        assert (pair.seen.data, pair.seen.taken_before) == (b"some!more", [5])
        pair.stream.between_frames = False
        await pair.write(b"rest!")
        await until(lambda: pair.seen.data.endswith(b"rest!"))
        assert (len(asked), pair.seen.taken_before) == (2, [5, -1])
        pair.peer.close()
        await pair.lost()


PARTS = st.lists(st.lists(st.integers(0, 30_000), max_size=80), max_size=12)


@settings(max_examples=60)
@given(writes=PARTS, seed=st.integers(0, 1000))
def test_all_that_is_written_arrives_in_order(writes: list[list[int]], seed: int) -> None:
    """In one piece or many, as bytes or views, while the kernel takes a few kilobytes at a time."""

    async def run() -> None:
        chance = random.Random(seed)
        async with turns() as poller:
            pair = Pair(poller)
            sent = b""
            for sizes in writes:
                parts: list[bytes | memoryview] = []
                for size in sizes:
                    data = chance.randbytes(size)
                    sent += data
                    parts.append(memoryview(data) if chance.random() < 0.5 else data)
                if len(parts) == 1:
                    pair.stream.write(parts[0])
                else:
                    pair.stream.writelines(parts)
                if chance.random() < 0.5:
                    await asyncio.sleep(0)
            pair.stream.close()
            assert pair.stream.is_closing()
            pair.stream.write(b"too late")
            assert await pair.read(len(sent) + 1) == sent
            assert await pair.lost() == ("lost", type(None))
            pair.peer.close()

    asyncio.run(run())


async def test_one_who_does_not_read_is_said_once_and_so_is_the_end_of_it() -> None:
    async with turns() as poller:
        pair = Pair(poller)
        pair.stream.set_write_buffer_limits(high=100_000)
        for _ in range(10):
            pair.stream.write(b"x" * 50_000)
        assert pair.seen.events == ["made", "pause"]
        assert pair.seen.unread_most == pair.stream.get_write_buffer_size()
        assert pair.stream.get_write_buffer_size() > 400_000
        assert len(await pair.read(500_000)) == 500_000
        await until(lambda: "resume" in pair.seen.events)
        assert pair.stream.get_write_buffer_size() == 0
        pair.peer.close()
        await pair.lost()
        assert pair.seen.events == ["made", "pause", "resume", "end", ("lost", type(None))]


async def test_reading_can_be_stopped_for_a_while() -> None:
    async with turns() as poller:
        pair = Pair(poller)
        pair.stream.pause_reading()
        await pair.write(b"wait")
        for _ in range(20):
            await asyncio.sleep(0)
        assert pair.seen.data == b""
        pair.stream.resume_reading()
        await until(lambda: pair.seen.data == b"wait")
        pair.peer.close()
        await pair.lost()


async def test_a_peer_that_goes_while_it_is_not_read_is_noticed() -> None:
    """The kernel reports it again and again, asked or not: the loop must not spin."""
    async with turns() as poller:
        pair = Pair(poller)
        await pair.write(b"unread")
        pair.stream.pause_reading()
        pair.peer.close()
        assert await pair.lost() == ("lost", ConnectionResetError)


async def test_writing_to_one_who_is_gone() -> None:
    async with turns() as poller:
        pair = Pair(poller)
        pair.stream.pause_reading()
        pair.peer.close()
        pair.stream.write(b"hello?")
        pair.stream.writelines([b"hello", b"?"])
        what, kind = cast(tuple[str, type[OSError]], await pair.lost())
        assert (what, issubclass(kind, OSError)) == ("lost", True)
        assert pair.seen.events.count(("lost", kind)) == 1


async def test_abort_drops_what_is_unsent() -> None:
    async with turns() as poller:
        pair = Pair(poller)
        pair.stream.write(b"x" * 1_000_000)
        assert pair.stream.get_write_buffer_size()
        pair.stream.abort()
        pair.stream.abort()
        assert pair.stream.get_write_buffer_size() == 0
        assert await pair.lost() == ("lost", type(None))
        assert len(await pair.read(1_000_000)) < 1_000_000
        pair.peer.close()


async def test_a_bug_costs_its_connection_and_no_other() -> None:
    async with turns() as poller:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        broken, other = Pair(poller), Pair(poller)

        def fail(data: bytes) -> None:
            raise ZeroDivisionError

        broken.seen.on_data = fail
        await broken.write(b"x")
        await other.write(b"y")
        assert await broken.lost() == ("lost", ZeroDivisionError)
        await until(lambda: other.seen.data == b"y")
        assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]
        other.peer.close()
        await other.lost()


async def test_what_is_put_off_runs_when_all_that_were_ready_are_read() -> None:
    async with turns() as poller:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        order: list[str] = []
        pairs = [Pair(poller) for _ in range(3)]
        for number, pair in enumerate(pairs):

            def came(data: bytes, number: int = number) -> None:
                order.append(f"read {number}")
                poller.after_reads(lambda: order.append(f"after {number}"))
                if number == 1:
                    poller.after_reads(lambda: [][1])

            pair.seen.on_data = came
            pair.peer.send(b"x")
        await until(lambda: len(order) == 6)
        assert [entry.split()[0] for entry in order] == ["read"] * 3 + ["after"] * 3
        assert [type(context["exception"]) for context in reported] == [IndexError]
        poller.after_reads(lambda: order.append("outside of a turn"))
        assert len(order) == 6
        await until(lambda: order[-1] == "outside of a turn")
        for pair in pairs:
            pair.peer.close()
            await pair.lost()


async def test_one_connection_may_end_another_in_the_same_turn() -> None:
    async with turns() as poller:
        first, second = Pair(poller), Pair(poller)
        for pair, other in ((first, second), (second, first)):
            pair.seen.on_data = lambda data, other=other: other.stream.abort()  # type: ignore[misc]
            pair.peer.send(b"x")
        await until(lambda: first.seen.lost.is_set() or second.seen.lost.is_set())
        assert len(first.seen.data + second.seen.data) == 1, "the one that was ended heard nothing"
        for pair in (first, second):
            pair.peer.close()
            await pair.lost()


async def test_nothing_stays_behind() -> None:
    async with turns() as poller:
        pair = Pair(poller)
        pair.stream.write(memoryview(b"x" * 1_000_000))
        gone = weakref.ref(pair.seen)
        pair.peer.close()
        await pair.lost()
        del pair
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None


async def test_a_socket_that_cannot_be_watched() -> None:
    async with turns() as poller:
        served, peer = socket.socketpair()
        poller.close()
        with pytest.raises(OSError, match="descriptor") as caught:
            Stream(poller, served, cast(Connection, Seen()), None)
        assert caught.value.errno == errno.EBADF
        served.close()
        peer.close()


async def test_peers_known_to_be_cheap_do_not_wait_behind_a_crowd_of_strangers() -> None:
    poller = SocketPoller(asyncio.get_running_loop())  # not started: it reads when we say so

    def spin(data: bytes) -> None:
        until_s = time.monotonic() + 0.004
        while time.monotonic() < until_s:
            pass

    crowd = [Pair(poller) for _ in range(20)]
    for each in crowd:
        each.seen.on_data = spin
    cheap = Pair(poller)
    for _ in range(50):
        await cheap.write(b"x")
        poller.read()
    for each in (*crowd, cheap):
        await each.write(b"y")
    before = len(cheap.seen.data)
    for _ in range(5):  # the machine itself may take the time of a turn
        poller.read()
        if len(cheap.seen.data) > before:
            break
    assert len(cheap.seen.data) == before + 1
    assert sum(each.seen.data == b"y" for each in crowd) <= 5, "they share the time of a turn"
    poller.start()
    await until(lambda: all(each.seen.data == b"y" for each in crowd))
    poller.close()
