"""Connections between servers of one installation, made and let in: TLS if it is configured, then the sign-in.

`PeerSecurity.admit` (the listening side) and `PeerSecurity.greet` (the calling side) give back a socket that is ready
for the stream, or raise PeerRefused. A listener lets in who shows a certificate it trusts, who knows the secret, and
who comes from a listed address (peers of RocketMQ's own make can do neither). Where nothing of this is configured,
and no accounts are either, everybody comes in, as in RocketMQ.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from rocketeer.errors import PeerRefused
from rocketeer.security.addresses import AddressTest, plain_ip
from rocketeer.security.peer import MAGIC, Handshake, calling, listening

log = logging.getLogger(__name__)

TLS_HELLO: Final = 0x16
RECORD_BYTES: Final = 16 << 10
"""The largest piece TLS encrypts; who reads so much at a time leaves nothing behind in OpenSSL."""
RECORDS_MAX: Final = 256
"""Most records that are decrypted in one call: each takes some microseconds, and may have one byte."""
SENT_BYTES: Final = 256 << 10
"""How many bytes are encrypted in one call."""
SIGN_IN_S: Final = 10.0
"""How long TLS and the sign-in may take."""


InTurn = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs what takes long when those who came before have had their turn; raises what it raises."""


async def _at_once(step: Callable[[], None]) -> None:
    step()


class PeerSocket(Protocol):
    """What streams between servers use of a socket that does not block; BlockingIOError means: not now."""

    def recv(self, size: int, /) -> bytes: ...

    def recv_into(self, buffer: memoryview, /) -> int: ...

    def send(self, data: bytes, /) -> int: ...

    def sendmsg(self, parts: Sequence[memoryview], /) -> int: ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class TlsSocket:
    """A PeerSocket with TLS in it. One thread may read while another one sends."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self._ahead = b""
        self._busy = threading.Lock()  # OpenSSL does one thing at a time for a connection

    @property
    def shows_certificate(self) -> bool:
        """Whether the peer has shown one that the context trusts."""
        return self._sock.context.verify_mode is not ssl.CERT_NONE and bool(self._sock.getpeercert())

    def recv(self, size: int, /) -> bytes:
        """What has come, up to a record: never less than OpenSSL has decrypted."""
        data, self._ahead = self._ahead, b""
        if data:
            return data
        with self._busy, _as_blocking():
            return self._sock.recv(max(size, RECORD_BYTES))

    def put_back(self, data: bytes) -> None:
        """Return these bytes with the next `recv`."""
        self._ahead = data + self._ahead

    def recv_into(self, buffer: memoryview, /) -> int:
        assert len(buffer) >= 2 * RECORD_BYTES, "what OpenSSL keeps no event would tell of"
        count = len(self._ahead)
        buffer[:count] = self._ahead
        self._ahead = b""
        with self._busy:
            for _ in range(RECORDS_MAX):
                if len(buffer) - count < RECORD_BYTES:
                    break
                try:
                    with _as_blocking():
                        got = self._sock.recv_into(buffer[count:])
                except BlockingIOError:
                    if not count:
                        raise
                    break
                if not got:
                    break
                count += got
        return count

    def send(self, data: bytes, /) -> int:
        return self.sendmsg([memoryview(data)])

    def sendmsg(self, parts: Sequence[memoryview], /) -> int:
        """Small parts share a record: a header of some bytes is no record of its own."""
        data = _front(parts, SENT_BYTES)
        sent = 0
        with self._busy:
            while sent < len(data):
                try:
                    with _as_blocking():
                        sent += self._sock.send(data[sent : sent + RECORD_BYTES])
                except BlockingIOError:
                    if not sent:
                        raise
                    break
        return sent

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()


@contextlib.contextmanager
def _as_blocking() -> Iterator[None]:
    """What OpenSSL says when it has to wait, in the words of sockets."""
    try:
        yield
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise BlockingIOError from None


def _front(parts: Sequence[memoryview], size: int) -> memoryview:
    """The first bytes of the parts, in one piece."""
    if len(parts) == 1:
        return parts[0][:size]
    front: list[memoryview] = []
    for part in parts:
        front.append(part[:size])
        size -= len(front[-1])
        if not size:
            break
    return memoryview(b"".join(front))


def _nobody(address: str) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class PeerSecurity:
    """What a server asks of its peers, and shows them.

    `accept_tls` is the context of a listener now, `call_tls` that of a caller; None: no TLS. `closed`: whoever is not
    known stays out. `takes_plain=False`: only with TLS, but from listed addresses.
    """

    secrets: tuple[bytes, ...] = ()
    accept_tls: Callable[[], ssl.SSLContext | None] = lambda: None
    call_tls: ssl.SSLContext | None = None
    takes_plain: bool = True
    is_listed: AddressTest = _nobody
    closed: bool = False

    def __repr__(self) -> str:
        return f"PeerSecurity(secrets={len(self.secrets)}, closed={self.closed})"  # never the secrets

    async def admit(
        self,
        sock: socket.socket,
        address: str,
        purpose: str,
        *,
        silent_s: float,
        in_turn: InTurn = _at_once,
    ) -> PeerSocket:
        """Let in who connected from `address`; so long it may wait before it says something.

        Strangers may come in crowds: `in_turn` runs each step of a TLS handshake. The socket may have been read from:
        look for data once before you wait for more.
        """
        try:
            return await self._admit(sock, self.is_listed(address), purpose, silent_s, in_turn)
        except TimeoutError:
            raise PeerRefused("it took too long to sign in") from None
        except (OSError, ssl.SSLError) as error:
            raise PeerRefused(f"the sign-in broke off: {error}") from None

    async def _admit(
        self, sock: socket.socket, listed: bool, purpose: str, silent_s: float, in_turn: InTurn
    ) -> PeerSocket:
        async with asyncio.timeout(silent_s):
            first = await _peek(sock)
        if first == TLS_HELLO:
            context = self.accept_tls()
            if context is None:
                raise PeerRefused("it comes with TLS, and no certificate is configured")
            return await _tls(
                context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False),
                lambda peer: self._admit_inside(peer, listed, purpose, silent_s),
                in_turn,
            )
        if not self.takes_plain and not listed:
            raise PeerRefused("it comes without TLS, and tls.server.mode is enforcing")
        await self._check(sock, first, listed, purpose)
        return sock

    async def _admit_inside(self, peer: TlsSocket, listed: bool, purpose: str, silent_s: float) -> None:
        async with asyncio.timeout(silent_s):
            first = await _peek_inside(peer)
        await self._check(peer, first, listed or peer.shows_certificate, purpose)

    async def _check(self, peer: PeerSocket, first: int, known: bool, purpose: str) -> None:
        """Check a peer: a sign-in must be right; without one it must be known, if this server is closed."""
        if first == MAGIC[0]:
            if not self.secrets:
                raise PeerRefused("it wants to sign in, and there is no peerSecretFile here")
            async with asyncio.timeout(SIGN_IN_S):
                await _run_handshake(peer, listening(self.secrets, purpose))
        elif self.closed and not known:
            raise PeerRefused("it does not sign in, and its address is not among peerAddresses")

    async def greet(self, sock: socket.socket, host: str, purpose: str) -> PeerSocket:
        """Make sure that whom we connected to is a peer, and show that we are; `host` is the name it goes by."""
        if self.is_listed(plain_ip(f"[{sock.getpeername()[0]}]:0")):
            return sock
        try:
            if self.call_tls is None:
                await self._sign_in(sock, purpose)
                return sock
            return await _tls(
                self.call_tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False),
                lambda peer: self._sign_in(peer, purpose),
            )
        except TimeoutError:
            raise PeerRefused("the other side took too long to sign in") from None
        except (OSError, ssl.SSLError) as error:
            raise PeerRefused(f"the sign-in broke off: {error}") from None

    async def _sign_in(self, peer: PeerSocket, purpose: str) -> None:
        if self.secrets:
            async with asyncio.timeout(SIGN_IN_S):
                await _run_handshake(peer, calling(self.secrets[0], purpose))


async def _tls(
    sock: ssl.SSLSocket, then: Callable[[TlsSocket], Awaitable[None]], in_turn: InTurn = _at_once
) -> TlsSocket:
    """Shake hands, then go on inside; whoever fails is closed, for the socket it came with is empty now."""
    try:
        async with asyncio.timeout(SIGN_IN_S):
            await _handshake(sock, in_turn)
        peer = TlsSocket(sock)
        await then(peer)
        return peer
    except BaseException:
        sock.close()
        raise


async def _ready(sock: socket.socket | ssl.SSLSocket | PeerSocket, *, to_write: bool = False) -> None:
    """Wait until it can be read (or written)."""
    loop = asyncio.get_running_loop()
    fd = sock.fileno()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    (loop.add_writer if to_write else loop.add_reader)(fd, tell)
    try:
        await ready
    finally:
        (loop.remove_writer if to_write else loop.remove_reader)(fd)


async def _peek(sock: socket.socket) -> int:
    """The first byte from the peer, left unread."""
    while True:
        await _ready(sock)
        with contextlib.suppress(BlockingIOError):
            return _first(sock.recv(1, socket.MSG_PEEK))


async def _peek_inside(sock: TlsSocket) -> int:
    while True:
        try:
            data = sock.recv(1)
        except BlockingIOError:
            await _ready(sock)
            continue
        sock.put_back(data)
        return _first(data)


def _first(data: bytes) -> int:
    if not data:
        raise PeerRefused("it closed the connection")
    return data[0]


async def _handshake(sock: ssl.SSLSocket, in_turn: InTurn) -> None:
    while True:
        try:
            await in_turn(sock.do_handshake)
            return
        except ssl.SSLWantReadError:
            await _ready(sock)
        except ssl.SSLWantWriteError:
            await _ready(sock, to_write=True)


async def _run_handshake(sock: PeerSocket, handshake: Handshake) -> None:
    """Say and hear what the handshake asks for, and not a byte more."""
    heard = b""
    step = next(handshake)
    with contextlib.suppress(StopIteration):
        while True:
            if isinstance(step, bytes):
                await _send_all(sock, step)
                step = next(handshake)
            else:
                heard = await _receive(sock, step, heard)
                heard, answer = heard[step:], heard[:step]
                step = handshake.send(answer)
    if heard:
        assert isinstance(sock, TlsSocket), "of a plain socket no more is read than was asked for"
        sock.put_back(heard)


async def _send_all(sock: PeerSocket, data: bytes) -> None:
    while data:
        try:
            data = data[sock.send(data) :]
        except BlockingIOError:
            await _ready(sock, to_write=True)


async def _receive(sock: PeerSocket, size: int, heard: bytes) -> bytes:
    while len(heard) < size:
        try:
            data = sock.recv(size - len(heard))
        except BlockingIOError:
            await _ready(sock)
            continue
        if not data:
            raise PeerRefused("the other side closed the connection")
        heard += data
    return heard
