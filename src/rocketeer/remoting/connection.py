"""One accepted connection: frames in, batched replies out, calls pushed to the peer.

Everything that one `data_received` brings is processed together and answered with one write. A connection
that sends garbage, stalls in the middle of a frame or does not read its replies is closed with one log line;
what it can make us hold is bounded by one frame in and `WRITE_BYTES_MAX` out.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, cast

from rocketeer.errors import CallTimeout, ConnectionLost, ProtocolError
from rocketeer.protocol.command import Command, encode
from rocketeer.protocol.frame import Frame, FrameSplitter
from rocketeer.record.hosts import encode_host

log = logging.getLogger(__name__)

WRITE_BYTES_MAX = 64 << 20
"""A peer that leaves more replies than this unread is cut off."""

READ_PAUSE_BYTES = 4 << 20
"""Above this many unread reply bytes we stop reading the peer's requests."""

NOBODY = "?"

Process = Callable[[list[Frame], "Connection"], None]


class Connection(asyncio.Protocol):
    """A peer. Handlers answer through `send`; features keep what they know of it in `attachments`."""

    __slots__ = (
        "_calls",
        "_corked",
        "_on_close",
        "_on_open",
        "_out",
        "_process",
        "_reading_paused",
        "_splitter",
        "_transport",
        "attachments",
        "frame_began_s",
        "last_read_s",
        "local",
        "remote",
        "remote_host",
    )

    def __init__(
        self,
        process: Process,
        *,
        on_open: Callable[["Connection"], None],
        on_close: Callable[["Connection"], None],
    ) -> None:
        self._process = process
        self._on_open = on_open
        self._on_close = on_close
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None
        self._corked = False
        self._reading_paused = False
        self._out: list[bytes | memoryview] = []
        self._calls: dict[int, asyncio.Future[Command]] = {}
        self.attachments: dict[str, Any] = {}
        self.remote = NOBODY
        self.remote_host = b"\0" * 8
        self.local = NOBODY
        self.last_read_s = 0.0
        self.frame_began_s = 0.0
        """When the frame that is now incomplete began; 0 between frames."""

    # --- asyncio's side ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's are of another class
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer is None:  # gone before we looked
            transport.abort()
            return
        self.remote = address_text(peer)
        self.remote_host = encode_host(peer[0].partition("%")[0], peer[1])
        self.local = address_text(transport.get_extra_info("sockname"))
        transport.set_write_buffer_limits(high=READ_PAUSE_BYTES)
        self.last_read_s = asyncio.get_running_loop().time()
        self._on_open(self)

    def data_received(self, data: bytes) -> None:
        now_s = self.last_read_s = asyncio.get_running_loop().time()
        try:
            frames = self._splitter.feed(data)
        except ProtocolError as error:
            self.close(str(error))
            return
        self._corked = True
        try:
            if frames:
                self.frame_began_s = 0.0
                self._process(frames, self)
        except ProtocolError as error:
            self.close(str(error))
        finally:
            self._corked = False
            if self._out:
                out = self._out
                self._out = []
                self.write(out[0] if len(out) == 1 else b"".join(out))
        if self._splitter.error is not None:
            self.close(str(self._splitter.error))
        elif not self.frame_began_s and self._splitter.pending_bytes:
            self.frame_began_s = now_s

    def pause_writing(self) -> None:
        # The peer does not read its replies: stop taking its requests, or they would pile up here.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._reading_paused = True

    def resume_writing(self) -> None:
        if self._transport is not None and self._reading_paused and not self._transport.is_closing():
            self._transport.resume_reading()
        self._reading_paused = False

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None
        for waiter in self._calls.values():
            if not waiter.done():
                waiter.set_exception(ConnectionLost(self.remote))
        self._calls.clear()
        if self.remote != NOBODY:
            self._on_close(self)

    # --- ours --------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def encrypted(self) -> bool:
        if self._transport is None:
            return False
        return isinstance(self._transport.get_extra_info("ssl_object"), ssl.SSLObject)

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
        if transport.get_write_buffer_size() > WRITE_BYTES_MAX:
            self.close(f"the peer left more than {WRITE_BYTES_MAX} bytes of replies unread", abort=True)

    def write_parts(self, parts: list[bytes | memoryview]) -> None:
        """Write one frame that is still in pieces (a pull reply: header and slices of the log)."""
        if self._corked:
            self._out.extend(parts)
        else:
            self.write(b"".join(parts))

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

    def shut(self, *, abort: bool = False) -> None:
        """Close quietly, after what was written; `abort` throws that away."""
        if self._transport is None:
            return
        if abort:
            self._transport.abort()
        else:
            self._transport.close()


def address_text(name: tuple[Any, ...]) -> str:
    """`ip:port`, with brackets around an IPv6 address."""
    host, port = name[0], name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
