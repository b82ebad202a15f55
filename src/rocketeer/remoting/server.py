"""Accepts connections on one or more ports, and closes those whose time is over.

TLS shares the port with plain text: the first byte decides (0x16 is a TLS hello) before a transport is chosen.
"""

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from rocketeer.config import ServerLimits
from rocketeer.errors import PortInUse
from rocketeer.remoting.connection import Connection, Process, ServeFront, address_text
from rocketeer.remoting.connection_slots import ConnectionSlots
from rocketeer.remoting.encrypted import TlsSession
from rocketeer.remoting.fair_queue import LoopReads, fair_queue
from rocketeer.remoting.first_bytes import FirstBytes
from rocketeer.remoting.handshakes import HELLO_BYTES_MAX, RECORD_HEADER_BYTES, Handshakes, hello_bytes
from rocketeer.remoting.held_bytes import UnfinishedFrames, UnreadReplies
from rocketeer.remoting.slices import in_slices
from rocketeer.remoting.streams import SocketPoller, Stream, new_poller
from rocketeer.steps import Steps

log = logging.getLogger(__name__)

TLS_HELLO = b"\x16"
SWEEP_S = 5.0
SWEPT_AT_ONCE = 64
"""Connections that are passed by in one step."""
CLOSE_S = 2.0
"""How long a peer may take to read its last replies when the server stops."""
CONNECTIONS_MAX = 100_000
ACCEPT_PAUSE_S = 0.5
"""How long nobody is let in when the system has no descriptor or memory left for a connection."""

HANDSHAKE_S = 10.0
"""How long a TLS handshake may take."""

TlsContext = Callable[[], ssl.SSLContext | None]
"""What a connection that begins with a TLS hello gets now; None: there is no certificate."""


def _no_tls() -> ssl.SSLContext | None:
    return None


class SocketSizes(NamedTuple):
    """How many may wait to be let in, and the kernel's buffers of a connection (0: the kernel decides)."""

    backlog: int = 1024
    send_bytes: int = 0
    receive_bytes: int = 0


DEFAULT_SIZES = SocketSizes()


class RemotingServer:
    """Listens, keeps the living connections, and closes the silent and the stalled ones.

    With `plain=False` everybody must come with TLS.
    `idle_s`: a connection from which nothing came for so long is closed. `frame_s`: so long may one frame take.
    `poller`: for a caller who wants to be called after its reads; else the server makes one.
    """

    def __init__(
        self,
        process: Process,
        *,
        serve_front: ServeFront | None = None,
        poller: "SocketPoller | None" = None,
        on_close: Callable[[Connection], None] = lambda connection: None,
        idle_s: float = 120.0,
        frame_s: float = 60.0,
        tls: TlsContext = _no_tls,
        plain: bool = True,
        sizes: SocketSizes = DEFAULT_SIZES,
        connections_max: int | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self._process = process
        self._serve_front = serve_front
        self._notify_close = on_close
        self._idle_s = idle_s
        self._frame_s = frame_s
        self._tls = tls
        self._plain = plain
        self._sizes = sizes
        self._connections_max = connections_max or default_connections_max()
        self._crowded = False
        limits = limits or ServerLimits()
        self._unfinished = UnfinishedFrames(limits.unfinished_bytes, "limitUnfinishedBytes")
        self._unread = UnreadReplies(limits.unread_bytes, "limitUnreadBytes")
        self._listeners: list[socket.socket] = []
        self._first_bytes = FirstBytes()
        self._opening: set[asyncio.Task[None]] = set()
        self._handshakes = Handshakes(limits.tls_handshakes, self._adopt)
        self._slots = ConnectionSlots(self._first_bytes, self._handshakes)
        self._reads = LoopReads()
        self._sweeper: asyncio.Task[None] | None = None
        self._poller = poller
        self._all_closed = asyncio.Event()
        self.connections: set[Connection] = set()

    @property
    def _peers(self) -> int:
        return len(self.connections) + len(self._first_bytes) + len(self._opening) + len(self._handshakes)

    @property
    def ports(self) -> list[int]:
        return [listener.getsockname()[1] for listener in self._listeners]

    async def start(self, host: str, ports: Iterable[int]) -> None:
        """Bind every port, or none: a port in use raises PortInUse and leaves nothing open."""
        try:
            for port in ports:
                self._listeners.append(_listen(host, port, self._sizes))
        except OSError as error:
            self._close_listeners()
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(host, port) from None
            raise
        loop = asyncio.get_running_loop()
        if self._poller is None:
            self._poller = new_poller(loop)
        if self._poller is not None:
            self._poller.start()
        for listener in self._listeners:
            loop.add_reader(listener.fileno(), self._accept, listener)
        self._sweeper = asyncio.create_task(self._sweep_forever())

    async def stop(self) -> None:
        """Stop listening, then close every connection once what was written has left."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener.fileno())
        self._close_listeners()
        self._first_bytes.close_all()
        self._handshakes.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._all_closed.clear()
        for connection in list(self.connections):
            connection.close_quietly()
        if not self.connections:
            self._all_closed.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_closed.wait(), CLOSE_S)
        for connection in list(self.connections):
            connection.close_quietly(abort=True)
        if self._poller is not None:
            self._poller.close()

    # --- accepting ---------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(64):
            if self._opening and self._peers >= self._connections_max:
                return  # in a turn or two these are connections, which may give their places
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors: those waiting stay in the backlog until others close.
                log.warning("accept failed error=%s: tried again in %g s", error, ACCEPT_PAUSE_S)
                self._pause_accepting(listener)
                return
            if self._peers >= self._connections_max and not self._slots.evict_one():
                if not self._crowded:
                    log.warning("connections refused limit=%d", self._connections_max)
                self._crowded = True
                sock.close()
                continue
            self._crowded = False
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._first_bytes.wait(sock, self._on_first_byte)

    def _pause_accepting(self, listener: socket.socket) -> None:
        """Wait a while: the loop would call `_accept` again and again while somebody waits in the backlog."""

        def resume() -> None:
            if listener in self._listeners:
                loop.add_reader(listener.fileno(), self._accept, listener)

        loop = asyncio.get_running_loop()
        loop.remove_reader(listener.fileno())
        loop.call_later(ACCEPT_PAUSE_S, resume)

    def _on_first_byte(self, sock: socket.socket) -> None:
        """Look at the first byte, which has come; who comes with many others waits for a turn."""
        if self._reads.is_over() or fair_queue():
            self._first_bytes.pause(sock)
            fair_queue().add(_FirstByteTurn(self, sock))
        else:
            self._choose_protocol(sock)

    def first_byte_in_turn(self, sock: socket.socket) -> None:
        if self._first_bytes.go_on(sock, self._on_first_byte):
            self._choose_protocol(sock)

    def _choose_protocol(self, sock: socket.socket) -> None:
        """Choose TLS or plain by the first byte, and hand the socket over."""
        tls: ssl.SSLContext | None = None
        try:
            first = sock.recv(RECORD_HEADER_BYTES, socket.MSG_PEEK)
            if first[:1] == TLS_HELLO:
                tls = self._tls()
                if tls is not None and not _has_come(sock, hello_bytes(first)):
                    return
        except BlockingIOError:
            return
        except OSError:
            first = b""
        since_s = self._first_bytes.take(sock)
        if not first:
            sock.close()
            return
        if first[:1] == TLS_HELLO:
            if tls is None:
                self._refuse_connection(sock, "TLS hello, but no certificate is configured")
            else:
                self._handshakes.ask(sock, tls, since_s)
            return
        elif not self._plain:
            self._refuse_connection(sock, "no TLS, but tls.server.mode is enforcing")
            return
        elif self._poller is not None:
            self._adopt_plain(sock, self._poller, since_s)
            return
        task = asyncio.ensure_future(self._adopt(sock, None, since_s))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _refuse_connection(self, sock: socket.socket, reason: str) -> None:
        with contextlib.suppress(OSError):  # gone already
            log.warning("connection closed remote=%s reason=%s", address_text(sock.getpeername()), reason)
        sock.close()

    def _adopt_plain(self, sock: socket.socket, poller: SocketPoller, since_s: float) -> None:
        try:
            Stream(poller, sock, self._new_connection(since_s), self._serve_front)
        except OSError as error:
            log.warning("connection closed reason=%s", error)
            sock.close()

    async def _adopt(self, sock: socket.socket, tls: ssl.SSLContext | None, since_s: float) -> None:
        """Make a connection of the socket by asyncio, or with TLS."""
        session = None if tls is None else TlsSession(tls)
        connection = self._new_connection(since_s, session)
        try:
            await self._connect(sock, connection)
            if session is not None:
                async with asyncio.timeout(HANDSHAKE_S):
                    await session.shaken
        except (OSError, ssl.SSLError) as error:  # also when it takes too long
            reason = str(error) or f"it took longer than {HANDSHAKE_S:g} s"
            log.warning("connection closed reason=handshake failed error=%s", reason)
            connection.close_quietly(abort=not isinstance(error, ssl.SSLError))
        except asyncio.CancelledError:  # others wait for its place
            connection.close_quietly(abort=True)
            raise
        finally:
            del session, connection  # a future holds its error, whose trace holds this frame

    async def _connect(self, sock: socket.socket, connection: Connection) -> None:
        try:
            if self._poller is not None:
                Stream(self._poller, sock, connection, None)
            else:
                await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, sock)
        except BaseException:
            sock.close()
            raise

    def _new_connection(self, since_s: float, tls: TlsSession | None = None) -> Connection:
        return Connection(
            self._process,
            serve_front=self._serve_front,
            on_open=partial(self._opened, since_s),
            on_close=self._closed,
            unfinished=self._unfinished,
            unread=self._unread,
            reads=self._reads,
            call_as_read=None if self._poller is None else self._poller.call_as_read,
            tls=tls,
        )

    def _opened(self, since_s: float, connection: Connection) -> None:
        self.connections.add(connection)
        self._slots.opened(connection, since_s)

    def _closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._slots.closed(connection)
        if not self.connections:
            self._all_closed.set()
        self._notify_close(connection)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    # --- housekeeping ------------------------------------------------------------------------

    async def _sweep_forever(self) -> None:
        pause_s = min(SWEEP_S, self._idle_s / 4, self._frame_s / 4)
        while True:
            await asyncio.sleep(pause_s)
            await in_slices(self._sweep(asyncio.get_running_loop().time()))

    def _sweep(self, now_s: float) -> Steps[None]:
        """Close those whose time is over, one a step: ten thousand may have fallen silent together."""
        yield from self._first_bytes.closing_older(now_s - self._idle_s)
        self._slots.look_again()
        for number, connection in enumerate(list(self.connections), 1):
            if number % SWEPT_AT_ONCE == 0:
                yield
            self._slots.looked_at(connection)
            if now_s - connection.last_read_s > self._idle_s:
                # One that does not even read would never let us say goodbye.
                connection.close(f"idle for {self._idle_s:g} s", abort=connection.unread_bytes > 0)
                yield
            elif connection.frame_began_s and now_s - connection.frame_began_s > self._frame_s:
                connection.close(f"one frame took longer than {self._frame_s:g} s", abort=True)
                yield


class _FirstByteTurn:
    """Waits for the turn in which its first byte is looked at."""

    __slots__ = ("_server", "_sock")

    def __init__(self, server: RemotingServer, sock: socket.socket) -> None:
        self._server = server
        self._sock = sock

    def take_turn(self, ends_s: float) -> None:
        self._server.first_byte_in_turn(self._sock)


def _has_come(sock: socket.socket, size: int) -> bool:
    """Whether so many bytes are there; else the loop is woken when they are. OSError if they will not come."""
    if size > HELLO_BYTES_MAX:
        raise OSError("no TLS hello is so large")
    if len(sock.recv(size, socket.MSG_PEEK)) < size:
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == size:
            raise OSError("the peer has ended it")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        return False
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    return True


def default_connections_max() -> int:
    """Half of the files the process may open: the store must never find that clients took them all."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return CONNECTIONS_MAX if limit == resource.RLIM_INFINITY else max(1, min(CONNECTIONS_MAX, limit // 2))


def _listen(host: str, port: int, sizes: SocketSizes) -> socket.socket:
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family is socket.AF_INET6:  # :: stands for every network, also those of IPv4
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Before it listens: connections have the sizes of the socket that accepted them.
        if sizes.send_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sizes.send_bytes)
        if sizes.receive_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, sizes.receive_bytes)
        listener.setblocking(False)
        listener.bind((host, port))
        listener.listen(sizes.backlog)
    except OSError:
        listener.close()
        raise
    return listener
