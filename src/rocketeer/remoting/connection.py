"""One accepted connection: frames in, batched replies out, calls pushed to the peer.

What one `data_received` brings is processed together and answered with one write. Requests of a peer that does
not read its replies wait until it does. A connection that sends garbage, stalls in the middle of a frame or reads
nothing is closed with one log line; what it can make us hold is bounded by one frame in and `WRITE_BYTES_MAX` of
`reply_writer.py` out.

No error may stay in a variable, or in a future that a variable holds, when its function ends: its trace would hold
the frame that holds it, with all the bytes that were read, until the next collection of cycles, which is seldom.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rocketeer.errors import CallTimeout, ConnectionLost, ProtocolError
from rocketeer.protocol.command import Command
from rocketeer.protocol.frame import FILLED_BYTES, Frame, FrameSplitter
from rocketeer.record.hosts import encode_host
from rocketeer.remoting.address import join_address
from rocketeer.remoting.connection_state import NEXT, OPENED, QUEUED, READ, WAITING, ConnectionState, Event
from rocketeer.remoting.encrypted import EncryptedTransport, TlsSession
from rocketeer.remoting.failed_calls import fail_calls
from rocketeer.remoting.fair_queue import MUCH_BYTES, TURN_S, LoopReads, ReadCost, fair_queue
from rocketeer.remoting.held_bytes import NOTED_BYTES, UnfinishedFrames, UnreadReplies
from rocketeer.remoting.reply_writer import ReplyWriter
from rocketeer.remoting.slices import run_sliced
from rocketeer.steps import Steps

if TYPE_CHECKING:
    from rocketeer.remoting.streams import Stream

log = logging.getLogger(__name__)

READ_PAUSE_BYTES = 4 << 20
"""Above this many unread reply bytes we stop reading the peer's requests."""

RUN_FRAMES_MAX = 64
"""Most requests that are served in one go; then we look whether the peer still reads its replies."""

FEW_FRAMES = 8
"""A connection that brings no more frames is served at once, also while others wait for their next turn."""

NOBODY = "?"

TURN_BYTES = 64 << 10
"""After so much from one peer the others are read first."""

Process = Callable[[list[Frame], "Connection"], None]

ServeFront = Callable[[bytes, "Connection"], int]
"""Serves what it can from the front of the bytes; how many those are. The frames behind them are for `Process`."""


def _call(callback: Callable[[], None]) -> None:
    callback()


class Connection(ReplyWriter):
    """A peer. Handlers answer through `send`. `connection_state.py` has the table of its states."""

    __slots__ = (
        "_call_as_read",
        "_calls",
        "_came",
        "_cost",
        "_last_read_s",
        "_on_close",
        "_on_open",
        "_postponed",
        "_process",
        "_reads",
        "_serve_front",
        "_splitter",
        "_state",
        "_tls",
        "_unfinished",
        "answer",
        "frame_began_s",
        "local",
        "remote",
        "remote_host",
        "request_steps",
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
        unfinished: UnfinishedFrames,
        unread: UnreadReplies,
        reads: LoopReads,
        call_as_read: Callable[[Callable[[], None]], None] | None = None,
        tls: TlsSession | None = None,
    ) -> None:
        """`reads` and `call_as_read` are for transports of asyncio; ours have both themselves."""
        super().__init__(unread)
        self._process = process
        self._serve_front = serve_front
        self._on_open = on_open
        self._on_close = on_close
        self._unfinished = unfinished
        self._reads = reads
        self._call_as_read = call_as_read or _call
        self._tls = tls
        self._cost = ReadCost()
        self._came: list[bytes] = []
        """Bytes that wait for a turn, in OUT_OF_TURN and UNREAD."""
        self._splitter = FrameSplitter()
        self._state = ConnectionState.NEW
        self.answer: Callable[[bytes], None] = _drop
        """Write replies that belong to no run of `Process`."""
        self.turn_ends_s = 0.0
        """When others are to have their turn (`time.monotonic`)."""
        self.under_way = 0
        """Requests whose answer takes a while."""
        self.request_steps: Steps[None] | None = None
        """What is left to do of the first request that waits: it takes more than a turn."""
        self._postponed: list[Frame] = []
        """Whole requests that wait, in OUT_OF_TURN and UNREAD."""
        self._calls: dict[int, asyncio.Future[Command]] = {}
        self.remote = NOBODY
        self.remote_host = b"\0" * 8
        self.local = NOBODY
        self._last_read_s = 0.0
        self.frame_began_s = 0.0
        """When the frame that is now incomplete began; 0 between frames."""

    def _transition(self, event: Event) -> None:
        """Go to the next state, and do what follows from being there."""
        before = self._state
        state = self._state = NEXT[before][event]
        if state is before:
            return
        if state in QUEUED:
            if before not in QUEUED:
                fair_queue().add(self)
        elif before in QUEUED:
            fair_queue().remove(self)
        transport = self._transport
        if before in READ and state in WAITING:
            assert transport is not None
            transport.pause_reading()
        elif before in WAITING and state in READ:
            assert transport is not None
            transport.resume_reading()

    # --- asyncio's side ----------------------------------------------------------------------

    def stream_made(self, stream: "Stream") -> None:
        """As `connection_made`, by a transport of ours."""
        self._stream = stream
        self._counts_written = self._tls is not None
        self.connection_made(cast(asyncio.Transport, stream))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        below = cast(asyncio.Transport, transport)  # uvloop's are of another class
        if self._tls is None:
            self._transport = below
        else:
            self._transport = EncryptedTransport(below, self._tls, self.pause_writing, self.resume_writing)
        self._transition(Event.MADE)
        self.answer = self.write if self._counts_written else below.write
        peer = transport.get_extra_info("peername")
        if peer is None:  # gone before we looked
            self.close_quietly(abort=True)
            return
        self.remote = address_text(peer)
        self.remote_host = encode_host(peer[0].partition("%")[0], peer[1])
        self.local = address_text(transport.get_extra_info("sockname"))
        self._transport.set_write_buffer_limits(high=READ_PAUSE_BYTES)
        self._last_read_s = asyncio.get_running_loop().time()
        if self._tls is None:
            self._open()

    def _open(self) -> None:
        self._transition(Event.OPENED)
        self._on_open(self)

    def data_received(self, data: bytes, served: int = -1) -> None:
        """`served`: how much of it `ServeFront` has served already; -1 if it was not asked."""
        if self._stream is not None:
            self._received(data, served)
            return
        pending_bytes = self._splitter.pending_bytes
        may_be_expensive = self._cost.may_be_expensive(len(data)) or pending_bytes > 0
        # What ends a large frame is served in a turn always: one in front of the turn and one in it would be two.
        has_to_wait = pending_bytes >= MUCH_BYTES or (
            may_be_expensive and (self._reads.is_over() or len(fair_queue()) > 0)
        )
        if self._came or (has_to_wait and self._state in READ):
            self._came.append(data)
            self._transition(Event.TURN_OVER)
        elif may_be_expensive:
            self._call_as_read(partial(self._serve_read, data))
        else:
            self._serve_read(data)

    def _serve_read(self, data: bytes) -> None:
        began_s = time.monotonic()
        self._received(data, -1)
        self._cost.note(len(data), time.monotonic() - began_s)

    def _received(self, data: bytes, served: int) -> None:
        read_bytes = len(data)
        if self._tls is not None:
            self._received_encrypted(data, self._tls)
        else:
            self._received_plain(data, served)
        if self._stream is not None:
            self._tell_stream(self._stream)
        elif read_bytes >= TURN_BYTES and not self.closed:
            # There is more where this came from; libuv would read on and on while others wait.
            self._transition(Event.TURN_OVER)

    def _received_encrypted(self, data: bytes, tls: TlsSession) -> None:
        was_opening, error = self._state not in OPENED, None
        try:
            data = tls.decrypt(data)
        except ssl.SSLError as failed:
            data, error = b"", str(failed)
            tls.fail(failed.with_traceback(None))
        if isinstance(self._transport, EncryptedTransport):
            self._transport.send_session_output()
        if was_opening and tls.is_established:
            self._open()
        if data:
            self._received_plain(data, -1)
        if error is not None and not was_opening:
            self.close(error)
        elif error is not None or tls.has_ended:
            self.close_quietly()
        elif tls.is_established and tls.has_more and not self.closed:
            self._came.append(b"")
            self._transition(Event.TURN_OVER)

    def _received_plain(self, data: bytes, served: int) -> None:
        now_s = self._last_read_s = asyncio.get_running_loop().time()
        try:
            frames: list[Frame] = []
            for piece in self._splitter.gather(data):
                self._take_piece(piece, served, frames)
        except ProtocolError as error:
            self.close(str(error))
            error.__traceback__ = (
                None  # the splitter keeps the error, and its trace would keep all that was read
            )
            return
        if frames:
            self._serve_new(frames)
        if self._splitter.error is not None:
            if not self._postponed:
                self.close(str(self._splitter.error))
        elif not self.frame_began_s and self._splitter.pending_bytes:
            self.frame_began_s = now_s
        unfinished_bytes = self._splitter.pending_bytes
        if unfinished_bytes >= NOTED_BYTES or self in self._unfinished.bytes_of:
            self._unfinished.note(self, unfinished_bytes)

    def _take_piece(self, piece: bytes, served: int, frames: list[Frame]) -> None:
        """Serve its front, if nothing that came before waits, and put the frames behind it to the others."""
        if self._serve_front is not None and not (self._postponed or frames or self._splitter.has_ready):
            if served < 0:
                served = self._serve_front(piece, self)
            if served:
                self.frame_began_s = 0.0
                if served == len(piece):
                    return
                piece = piece[served:]
        self._splitter.split(piece, frames)

    def _serve_new(self, frames: list[Frame]) -> None:
        self.frame_began_s = 0.0
        self.turn_ends_s = time.monotonic() + TURN_S
        if self._postponed or len(frames) > RUN_FRAMES_MAX or (len(frames) > FEW_FRAMES and fair_queue()):
            self._postponed += frames
            if not fair_queue():
                self._serve_postponed()
        else:
            self._serve(frames)
        if self._postponed and not self.closed:
            self._transition(Event.TURN_OVER)

    def _tell_stream(self, stream: "Stream") -> None:
        splitter = self._splitter
        stream.between_frames = not (self._postponed or splitter.pending_bytes or splitter.error)

    def _serve(self, frames: list[Frame]) -> None:
        """Have `Process` serve the frames, and write what it answered, also before an error."""
        broken: str | None = None
        replies = self._run_replies = []
        try:
            self._process(frames, self)
        except ProtocolError as error:
            broken = str(error)
        finally:
            self._run_replies = None
            if replies:
                self._write_all(replies)
        if broken is not None:
            self.close(broken)

    def _serve_postponed(self) -> None:
        """Go on as long as the peer reads its replies (`resume_writing` comes back here) and its turn lasts."""
        while self._postponed and self._state is not ConnectionState.UNREAD and not self.closed:
            run = self._postponed[:RUN_FRAMES_MAX]
            del self._postponed[:RUN_FRAMES_MAX]
            self._serve(run)
            if time.monotonic() >= self.turn_ends_s:
                break

    def postpone(self, frames: list[Frame]) -> None:
        """Keep frames for the next turn, where they come first; for `Process`, when the turn is over."""
        self._postponed[:0] = frames
        if self._run_replies is None and not self.closed:  # not called from here
            self._transition(Event.TURN_OVER)
            if self._stream is not None:
                self._tell_stream(self._stream)

    def take_turn(self, ends_s: float) -> None:
        """The peer has read, or the others had their turn: serve what waited, then read on."""
        self.turn_ends_s = ends_s
        try:
            if self._came and not self._postponed:
                data = b"".join(self._came)
                self._came.clear()
                self._call_as_read(partial(self._serve_read, data))
            else:
                self._serve_postponed()
        except BaseException:
            self.close_quietly(abort=True)  # a bug of ours, as an error in `data_received` would end it
            raise
        if self._stream is not None:
            self._tell_stream(self._stream)
        if self._state not in QUEUED or self.closed:
            return
        if self._postponed or self._came:
            fair_queue().add(self, first=self.request_steps is not None)
        elif self._splitter.error is not None:
            self.close(str(self._splitter.error))
        else:
            self._transition(Event.ALL_SERVED)

    def pause_writing(self) -> None:
        # The peer does not read its replies: stop taking its requests, or they would pile up here.
        if not self.closed:
            self._transition(Event.REPLIES_PILE_UP)

    def resume_writing(self) -> None:
        if (
            self._state is ConnectionState.UNREAD
            and not self.closed
            and self.unread_bytes <= READ_PAUSE_BYTES
        ):
            self._last_read_s = asyncio.get_running_loop().time()  # it took what we wrote: it is alive
            self._transition(Event.REPLIES_TAKEN)

    def eof_received(self) -> None:
        """The peer sends nothing more; the transport closes when what was written has left."""
        self._transition(Event.END)

    def connection_lost(self, exc: BaseException | None) -> None:
        was_opened = self._state in OPENED
        self._transition(Event.LOST)
        if self._tls is not None:
            self._tls.fail(ConnectionResetError("the peer has gone"))
        self._transport = self._stream = None
        self.answer = _drop
        if self._calls:
            fail_calls(self._calls.values(), partial(ConnectionLost, self.remote))
            self._calls = {}
        self._postponed.clear()
        self.request_steps = None
        self._came.clear()
        self._unfinished.note(self, 0)
        self.drop_unfinished()
        self._unread.forget(self)
        if was_opened:
            self._on_close(self)

    # --- ours --------------------------------------------------------------------------------

    @property
    def last_read_s(self) -> float:
        """When the peer last showed that it is alive."""
        stream = self._stream
        return self._last_read_s if stream is None else max(self._last_read_s, stream.last_read_s)

    async def call(self, command: Command, timeout_s: float) -> Command:
        """Ask the peer something (its running info, its transaction's state) and wait for the answer."""
        if self.closed:
            raise ConnectionLost(self.remote)
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Command] = loop.create_future()
        code, opaque = command.code, command.opaque
        self._calls[opaque] = waiter
        self.send(command)
        del command  # it may be large, and the answer long in coming
        error = partial(CallTimeout, self.remote, code, timeout_s)
        timer = loop.call_later(timeout_s, fail_calls, (waiter,), error)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._calls.pop(opaque, None)
            del waiter  # it may hold an error whose trace holds this frame

    def answer_arrived(self, command: Command) -> None:
        """Hand a reply from the peer to the `call` that waits for it; late ones are dropped."""
        waiter = self._calls.get(command.opaque)
        if waiter is not None and not waiter.done():
            waiter.set_result(command)

    def close(self, reason: str, *, abort: bool = False) -> None:
        if not self.closed:
            log.warning("connection closed remote=%s reason=%s", self.remote, reason)
            self.close_quietly(abort=abort)

    def drop_unfinished(self) -> None:
        """Let go of the frame that has begun, whenever the connection itself may go."""
        if self._splitter.pending_bytes >= FILLED_BYTES:
            run_sliced(self._splitter.dropping())  # many peers may go together
        self._splitter = FrameSplitter()

    def close_quietly(self, *, abort: bool = False) -> None:
        """Close quietly, after what was written; `abort` throws that away."""
        if self._transport is None:
            return
        self._transition(Event.END)
        if abort:
            self._transport.abort()
        else:
            self._transport.close()


def _drop(data: bytes) -> None:
    """Discard data: the peer is not there (any more)."""


def address_text(name: tuple[Any, ...]) -> str:
    """The text of what sockets call a name."""
    return join_address(name[0], name[1])
