"""A blocking socket that frames are sent to and read from: every step has a deadline.

`BlockingConnection` and the client's `BulkConnection` are made of it: one reads all that has come, the other one
large bodies into memory of its own.
"""

import contextlib
import ipaddress
import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from rocketeer.errors import CallTimeout, ConnectFailed, ConnectionLost, ProtocolError
from rocketeer.protocol.command import Command, decode_frame
from rocketeer.protocol.frame import FRAME_BYTES_MAX, PREFIX, FrameSplitter, frame_error
from rocketeer.remoting.address import HostPort, split_address

READ_BYTES: Final = 16 << 10
"""At a time. A larger block the C library may take from the system and give back for every read, at the price of all
other steps of a call."""
READ_BYTES_MUCH: Final = 256 << 10
"""Behind a read that was filled: what comes is large."""
SAME_TIME_S: Final = 0.001
"""Sockets count time in these steps: less is no reason to tell the system of another time-out."""

SOCKET_ERRORS: Final = (OSError, ProtocolError)
"""What the methods of a FrameSocket raise besides ConnectionLost: `fail_call` has our words for them."""


class FrameSocket:
    """A connected socket that sends and reads whole frames.

    Raises TimeoutError at a deadline. Not for threads to share.
    """

    def __init__(
        self,
        address: str,
        connect_end_s: float,
        *,
        tls: ssl.SSLContext | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ConnectFailed when there is no connection at `connect_end_s`."""
        self.address = address
        self.socket = connect(address, connect_end_s, tls=tls, monotonic_s=monotonic_s)
        self._monotonic_s = monotonic_s
        self._timeout_s = math.inf
        """Timeout that the socket has; infinite: not known."""
        self._incoming = select.poll()
        self._incoming.register(self.socket, select.POLLIN)
        self._read_bytes = READ_BYTES
        self._splitter = FrameSplitter()
        self._closed = False

    def send(self, frame: bytes, deadline_s: float) -> None:
        """Send all of it, or close: half a frame may have left, and nothing can follow it."""
        self._limit(deadline_s)
        try:
            self.socket.sendall(frame)
        except BaseException:
            self.close()
            raise

    def receive(self, deadline_s: float) -> list[Command]:
        """Read once; the commands that are complete."""
        self._limit(deadline_s)
        data = self.socket.recv(self._read_bytes)
        self._read_bytes = READ_BYTES if len(data) < READ_BYTES else READ_BYTES_MUCH
        if not data:
            self.close()
            raise ConnectionLost(self.address)
        splitter = self._splitter
        frames = splitter.feed(data)
        if splitter.error is not None:
            raise splitter.error
        return [decode_frame(*frame) for frame in frames]

    def receive_head(self, deadline_s: float) -> tuple[Command, int]:
        """Read no more than the head of a frame: without its body, of which so many bytes follow for `fill`."""
        size, kind_and_header = PREFIX.unpack(self._exactly(PREFIX.size, deadline_s))
        if (error := frame_error(size, kind_and_header, FRAME_BYTES_MAX)) is not None:
            raise error
        header_bytes = kind_and_header & 0xFFFFFF
        header = bytes(self._exactly(header_bytes, deadline_s))
        return decode_frame(kind_and_header >> 24, header, b""), size - 4 - header_bytes

    def fill(self, view: memoryview, deadline_s: float) -> None:
        """Read as much as there is room for."""
        size, at = len(view), 0
        while at < size:
            self._limit(deadline_s)
            came = self.socket.recv_into(view[at:])
            if not came:
                self.close()
                raise ConnectionLost(self.address)
            at += came

    @property
    def is_usable(self) -> bool:
        """False when it is closed: here, or by the peer while nobody looked, as servers do with idle connections."""
        if self._closed:
            return False
        if not self._incoming.poll(0):  # mostly there is nothing
            return True
        self._timeout_s = math.inf
        return not closed_by_peer(self.socket)

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self.socket.close()

    def _exactly(self, size: int, deadline_s: float) -> bytearray:
        data = bytearray(size)
        self.fill(memoryview(data), deadline_s)
        return data

    def _limit(self, deadline_s: float) -> None:
        """Set the time-out of the next step."""
        left_s = deadline_s - self._monotonic_s()
        if left_s <= 0:
            raise TimeoutError
        if abs(left_s - self._timeout_s) > SAME_TIME_S:
            self.socket.settimeout(left_s)
            self._timeout_s = left_s


def fail_call(error: OSError | ProtocolError, address: str, code: int, timeout_s: float) -> NoReturn:
    """Raise what a call raises that broke off so."""
    if isinstance(error, TimeoutError):
        raise CallTimeout(address, code, timeout_s) from None
    raise ConnectionLost(address, str(error)) from error


def connect(
    address: str,
    end_s: float,
    *,
    tls: ssl.SSLContext | None = None,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> socket.socket:
    """A blocking socket to the address; raises ConnectFailed when there is none at `end_s` (monotonic)."""
    host_port = split_address(address)
    began_s = monotonic_s()
    try:
        sock = _dial(host_port, end_s, monotonic_s)
        try:
            sock.settimeout(_left_s(end_s, monotonic_s))  # for the TLS handshake
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if tls is not None:
                sock = tls.wrap_socket(sock, server_hostname=host_port.host)
        except BaseException:
            sock.close()
            raise
    except TimeoutError:
        raise ConnectFailed(address, f"no connection within {end_s - began_s:.3g} s") from None
    except (OSError, UnicodeError) as error:
        raise ConnectFailed(address, str(error) or type(error).__name__) from error
    return sock


def closed_by_peer(sock: socket.socket) -> bool:
    """True when the peer closed while nobody looked, as servers do with idle connections."""
    if isinstance(sock, ssl.SSLSocket):
        return False  # what arrived is encrypted: no use to peek at it
    try:
        sock.settimeout(0)
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _dial(host_port: HostPort, end_s: float, monotonic_s: Callable[[], float]) -> socket.socket:
    """Connect to the first of the host's addresses that answers; they share the time."""
    failure = OSError("the host has no address")
    for family, kind, protocol, _, place in _resolve(host_port, _left_s(end_s, monotonic_s)):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left_s(end_s, monotonic_s))
            sock.connect(place)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    raise failure


def _left_s(deadline_s: float, monotonic_s: Callable[[], float]) -> float:
    left_s = deadline_s - monotonic_s()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _resolve(host_port: HostPort, timeout_s: float) -> list[Any]:
    """The addresses of a host. A name is looked up in a thread: the system's resolver knows no time-out."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host_port.host)
        return socket.getaddrinfo(*host_port, type=socket.SOCK_STREAM)
    found: list[Any] = []
    failed: list[Exception] = []

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(*host_port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failed.append(error)

    thread = threading.Thread(target=look_up, name=f"resolve {host_port.host}", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # since Python 3.12 a program that is ending gets no thread any more
        look_up()
    else:
        thread.join(timeout_s)
    if failed:
        raise failed[0]
    if thread.is_alive():
        raise TimeoutError
    return found
