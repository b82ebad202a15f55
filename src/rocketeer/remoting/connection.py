"""One accepted connection: frames in, batched replies out, calls pushed to the peer.

What one `data_received` brings is processed together and answered with one write. Requests of a peer that does
not read its replies wait until it does. A connection that sends garbage, stalls in the middle of a frame or reads
nothing is closed with one log line; what it can make us hold is bounded by one frame in and `WRITE_BYTES_MAX` out.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from rocketeer.errors import CallTimeout, ConnectionLost, ProtocolError
from rocketeer.protocol.command import Command, encode
from rocketeer.protocol.frame import Frame, FrameSplitter
from rocketeer.record.hosts import encode_host
from rocketeer.remoting.address import join_address

if TYPE_CHECKING:
    from rocketeer.remoting.streams import Stream

log = logging.getLogger(__name__)

WRITE_BYTES_MAX = 64 << 20
"""A peer that leaves more replies than this unread is cut off."""

READ_PAUSE_BYTES = 4 << 20
"""Above this many unread reply bytes we stop reading the peer's requests."""

RUN_FRAMES_MAX = 64
"""So many requests are served in one go; then we look whether the peer still reads its replies."""

TURN_S = 0.004
"""After so long with the requests of one peer the others have their turn."""

NOBODY = "?"

GATHER_BYTES_MIN = 16 << 10
GATHER_PARTS_MAX = 64
"""From so many bytes on, in no more than so many pieces, replies are written without being joined first."""

TURN_BYTES = 64 << 10
"""After so much from one peer the others are read first."""

Process = Callable[[list[Frame], "Connection"], None]

ServeFront = Callable[[bytes, "Connection"], int]
"""Serves what it can from the front of the bytes; how many those are. The frames behind them are for `Process`."""


HUGE_HEADER_BYTES = 256 << 10

NOTED_BYTES = 2 << 10
"""Less of an unfinished frame than this is not counted."""


class UnfinishedFrames:
    """What all connections of a server hold of frames that have begun and not ended.

    Beyond the limit the one whose frame began first is closed: whoever sends a whole frame without a pause is the
    last to be hit.
    """

    def __init__(self, bytes_max: int, key: str) -> None:
        self._bytes_max = bytes_max
        self._key = key
        self._bytes = 0
        self.bytes_of: dict[Connection, int] = {}
        """In the order in which their frames began."""

    def note(self, connection: "Connection", unfinished_bytes: int) -> None:
        """So much of an unfinished frame the connection holds now."""
        before = self.bytes_of.get(connection, 0)
        self._bytes += unfinished_bytes - before
        if unfinished_bytes < before or not unfinished_bytes:
            self.bytes_of.pop(connection, None)  # another frame than before
        if unfinished_bytes:
            self.bytes_of[connection] = unfinished_bytes
        while self._bytes > self._bytes_max:
            oldest = next(iter(self.bytes_of))
            self._bytes -= self.bytes_of.pop(oldest)
            reason = (
                f"unfinished frames of all connections take more than {self._key}={self._bytes_max} bytes"
            )
            oldest.close(reason, abort=True)
            oldest.drop_unfinished()


class Connection(asyncio.Protocol):
    """A peer. Handlers answer through `send`."""

    __slots__ = (
        "_calls",
        "_catching_up",
        "_corked",
        "_last_read_s",
        "_on_close",
        "_on_open",
        "_out",
        "_postponed",
        "_process",
        "_reading_paused",
        "_serve_front",
        "_splitter",
        "_stream",
        "_transport",
        "_unfinished",
        "answer",
        "frame_began_s",
        "local",
        "remote",
        "remote_host",
        "turn_ends_s",
        "under_way",
    )

    def __init__(
        self,
        process: Process,
        *,
        serve_front: ServeFront | None = None,
        on_open: Callable[["Connection"], None],
        on_close: Callable[["Connection"], None],
        unfinished: UnfinishedFrames | None = None,
    ) -> None:
        self._process = process
        self._serve_front = serve_front
        self._on_open = on_open
        self._on_close = on_close
        self._unfinished = unfinished
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None
        self._stream: Stream | None = None
        """The transport, if it is one of ours."""
        self.answer: Callable[[bytes], None] = _drop
        """Write replies that belong to no run of `Process`."""
        self._corked = False
        self._reading_paused = False
        self._catching_up = False
        self.turn_ends_s = 0.0
        """When others are to have their turn (`time.monotonic`)."""
        self.under_way = 0
        """Requests whose answer takes a while."""
        self._out: list[bytes | memoryview] = []
        self._postponed: list[Frame] = []
        self._calls: dict[int, asyncio.Future[Command]] = {}
        self.remote = NOBODY
        self.remote_host = b"\0" * 8
        self.local = NOBODY
        self._last_read_s = 0.0
        self.frame_began_s = 0.0
        """When the frame that is now incomplete began; 0 between frames."""

    # --- asyncio's side ----------------------------------------------------------------------

    def stream_made(self, stream: "Stream") -> None:
        """As `connection_made`, by a transport of ours."""
        self._stream = stream
        self.answer = stream.write
        self.connection_made(cast(asyncio.Transport, stream))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's are of another class
        self._transport = transport
        if self._stream is None:
            self.answer = self.write
        peer = transport.get_extra_info("peername")
        if peer is None:  # gone before we looked
            transport.abort()
            return
        self.remote = address_text(peer)
        self.remote_host = encode_host(peer[0].partition("%")[0], peer[1])
        self.local = address_text(transport.get_extra_info("sockname"))
        transport.set_write_buffer_limits(high=READ_PAUSE_BYTES)
        self._last_read_s = asyncio.get_running_loop().time()
        self._on_open(self)

    def data_received(self, data: bytes, served: int = -1) -> None:
        """`served`: how much of it `ServeFront` has served already; -1 if it was not asked."""
        now_s = self._last_read_s = asyncio.get_running_loop().time()
        read_bytes = len(data)
        try:
            whole = self._splitter.gather(data)
            if whole is not None and self._serve_front is not None and not self._postponed:
                if served < 0:
                    served = 0 if _has_huge_header(whole) else self._serve_front(whole, self)
                if served:
                    self.frame_began_s = 0.0
                    whole = whole[served:] if served < len(whole) else None
            frames = [] if whole is None else self._splitter.split(whole)
        except ProtocolError as error:
            self.close(str(error))
            return
        if frames:
            self.frame_began_s = 0.0
            self.turn_ends_s = time.monotonic() + TURN_S
            if len(frames) > RUN_FRAMES_MAX or self._postponed:
                self._postponed += frames
                self._serve_postponed()
            else:
                self._serve(frames)
            if self._postponed and not self._catching_up:
                self._give_way()
        if self._splitter.error is not None:
            if not self._postponed:
                self.close(str(self._splitter.error))
        elif not self.frame_began_s and self._splitter.pending_bytes:
            self.frame_began_s = now_s
        if self._unfinished is not None:
            unfinished_bytes = self._splitter.pending_bytes
            if unfinished_bytes >= NOTED_BYTES or self in self._unfinished.bytes_of:
                self._unfinished.note(self, unfinished_bytes)
        if self._stream is not None:
            self._tell_stream(self._stream)
        elif read_bytes >= TURN_BYTES and not self._reading_paused and not self.closed:
            # There is more where this came from; libuv would read on and on while others wait.
            assert self._transport is not None
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        """The others had their turn."""
        if not self._reading_paused and not self._postponed and not self.closed:
            assert self._transport is not None
            self._transport.resume_reading()

    def _tell_stream(self, stream: "Stream") -> None:
        splitter = self._splitter
        stream.between_frames = not (self._postponed or splitter.pending_bytes or splitter.error)

    def _serve(self, frames: list[Frame]) -> None:
        failure: ProtocolError | None = None
        self._corked = True
        try:
            self._process(frames, self)
        except ProtocolError as error:
            failure = error
        finally:
            self._corked = False
            if self._out:
                out = self._out
                self._out = []
                self._write_all(out)
        if failure is not None:  # what was answered before it has been written
            self.close(str(failure))

    def _serve_postponed(self) -> None:
        """Go on as long as the peer reads its replies (`resume_writing` comes back here) and its turn lasts."""
        while self._postponed and not self._reading_paused and not self.closed:
            run = self._postponed[:RUN_FRAMES_MAX]
            del self._postponed[:RUN_FRAMES_MAX]
            self._serve(run)
            if time.monotonic() >= self.turn_ends_s:
                break

    def postpone(self, frames: list[Frame]) -> None:
        """For `Process`, when the turn is over: these come first in the next one."""
        self._postponed[:0] = frames
        if not self._corked and not self._catching_up:  # not called from here
            self._give_way()
            if self._stream is not None:
                self._tell_stream(self._stream)

    def _give_way(self) -> None:
        """Go on in the next turn of the loop, and read nothing until all is served."""
        if self._reading_paused or self.closed:  # `resume_writing` goes on, or nobody
            return
        assert self._transport is not None
        self._transport.pause_reading()
        self._catching_up = True
        asyncio.get_running_loop().call_soon(self._catch_up)

    def _catch_up(self) -> None:
        """The peer has read, or it is its turn again: serve what waited, then read on."""
        self._catching_up = False
        self.turn_ends_s = time.monotonic() + TURN_S
        try:
            self._serve_postponed()
        except BaseException:
            self.shut(abort=True)  # a bug of ours, as an error in `data_received` would end it
            raise
        if self._stream is not None:
            self._tell_stream(self._stream)
        if self._reading_paused or self.closed:
            return
        if self._postponed:
            self._catching_up = True
            asyncio.get_running_loop().call_soon(self._catch_up)
            return
        if self._splitter.error is not None:
            self.close(str(self._splitter.error))
        elif self._transport is not None:
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        # The peer does not read its replies: stop taking its requests, or they would pile up here.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._reading_paused = True

    def resume_writing(self) -> None:
        was_paused, self._reading_paused = self._reading_paused, False
        if was_paused and not self.closed:
            loop = asyncio.get_running_loop()
            self._last_read_s = loop.time()  # it took what we wrote: it is alive
            loop.call_soon(self._catch_up)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = self._stream = None
        self.answer = _drop
        for waiter in self._calls.values():
            if not waiter.done():
                waiter.set_exception(ConnectionLost(self.remote))
        self._calls.clear()
        self._postponed.clear()
        if self._unfinished is not None:
            self._unfinished.note(self, 0)
        if self.remote != NOBODY:
            self._on_close(self)

    # --- ours --------------------------------------------------------------------------------

    @property
    def last_read_s(self) -> float:
        """When the peer last showed that it is alive."""
        stream = self._stream
        return self._last_read_s if stream is None else max(self._last_read_s, stream.last_read_s)

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def unread_bytes(self) -> int:
        """What we wrote and the peer has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, command: Command) -> None:
        """Send a reply or a push; silently dropped when the peer has gone."""
        self.write(encode(command))

    def write(self, data: bytes | memoryview) -> None:
        """Write a whole frame; inside `data_received` it waits for the others of the same run."""
        if self._corked:
            self._out.append(data)
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write(data)
        self._check_unread(transport)

    def _check_unread(self, transport: asyncio.Transport) -> None:
        if transport.get_write_buffer_size() > WRITE_BYTES_MAX:
            self.close(f"the peer left more than {WRITE_BYTES_MAX} bytes of replies unread", abort=True)

    def _write_all(self, parts: list[bytes | memoryview]) -> None:
        """Small pieces are joined, large ones are cheaper written as they are."""
        if len(parts) == 1:
            self.write(parts[0])
        elif len(parts) > GATHER_PARTS_MAX or sum([len(part) for part in parts]) < GATHER_BYTES_MIN:
            self.write(b"".join(parts))
        else:
            transport = self._transport
            if transport is not None and not transport.is_closing():
                transport.writelines(parts)
                self._check_unread(transport)

    def write_parts(self, parts: list[bytes | memoryview]) -> None:
        """Write one frame that is still in pieces (a pull reply: header and slices of the log)."""
        if self._corked:
            self._out.extend(parts)
        else:
            self._write_all(parts)

    async def call(self, command: Command, timeout_s: float) -> Command:
        """Ask the peer something (its running info, its transaction's state) and wait for the answer."""
        if self.closed:
            raise ConnectionLost(self.remote)
        waiter: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._calls[command.opaque] = waiter
        self.send(command)
        try:
            return await asyncio.wait_for(waiter, timeout_s)
        except TimeoutError:
            raise CallTimeout(self.remote, command.code, timeout_s) from None
        finally:
            self._calls.pop(command.opaque, None)

    def answer_arrived(self, command: Command) -> None:
        """Hand a reply from the peer to the `call` that waits for it; late ones are dropped."""
        waiter = self._calls.get(command.opaque)
        if waiter is not None and not waiter.done():
            waiter.set_result(command)

    def close(self, reason: str, *, abort: bool = False) -> None:
        """Close because of what the peer did, with one log line; `abort` drops unsent replies too."""
        if not self.closed:
            log.warning("connection closed remote=%s reason=%s", self.remote, reason)
            self.shut(abort=abort)

    def drop_unfinished(self) -> None:
        """Let go of the frame that has begun, whenever the connection itself may go."""
        self._splitter = FrameSplitter()

    def shut(self, *, abort: bool = False) -> None:
        """Close quietly, after what was written; `abort` throws that away."""
        if self._transport is None:
            return
        if abort:
            self._transport.abort()
        else:
            self._transport.close()


def _has_huge_header(data: bytes) -> bool:
    """Whether it begins with a frame whose header no send has: the general path refuses it unread."""
    return len(data) > HUGE_HEADER_BYTES and int.from_bytes(data[5:8], "big") > HUGE_HEADER_BYTES


def _drop(data: bytes) -> None:
    """For a peer that is not there (any more)."""


def address_text(name: tuple[Any, ...]) -> str:
    """The text of what sockets call a name."""
    return join_address(name[0], name[1])
