"""The calling end of a stream between servers: connects, signs in, reads, answers with little, ends with a reason."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

from rocketeer.errors import ReplicationError
from rocketeer.remoting.address import split_address
from rocketeer.replication.peer_reader import PeerReader
from rocketeer.security.peer_socket import PeerSecurity, PeerSocket


@contextlib.asynccontextmanager
async def connected(
    address: str, security: PeerSecurity, purpose: str, timeout_s: float
) -> AsyncIterator[PeerSocket]:
    """A socket to a peer that we trust and that trusts us; ReplicationError, PeerRefused, OSError."""
    loop = asyncio.get_running_loop()
    host, port = split_address(address)
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, where = found[0]
    sock = socket.socket(family, kind, protocol)
    sock.setblocking(False)
    peer: PeerSocket = sock
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            # Not wait_for: whoever is cancelled in the moment in which the connection fails would go on.
            async with asyncio.timeout(timeout_s):
                await loop.sock_connect(sock, where)
        except TimeoutError:
            raise ReplicationError(f"no connection to {address} within {timeout_s:g} s") from None
        peer = await security.greet(sock, host, purpose)
        yield peer
    finally:
        peer.close()
        sock.close()


class StreamConnection:
    """One connection, for as long as `run`. Belongs to the loop thread. `take` gets what comes; see `PeerReader`."""

    def __init__(
        self,
        sock: PeerSocket,
        buffer_bytes: int,
        now_s: Callable[[], float],
        *,
        peer: str,
        take: Callable[[memoryview], None],
    ) -> None:
        self._sock = sock
        self._buffer_bytes = buffer_bytes
        self._now_s = now_s
        self._peer = peer
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._unsent = b""
        self.read_s = self.wrote_s = now_s()

    @property
    def ended(self) -> bool:
        return self._end.done()

    async def run(self, tick: Callable[[], None], tick_s: float) -> None:
        """Serve the connection until it ends, calling `tick` every `tick_s`; raises the reason it ended."""
        reader = PeerReader(
            self._sock, self._buffer_bytes, peer=self._peer, take=self._read, ended=self.close
        )
        try:
            while not self.ended:
                await asyncio.wait((self._end,), timeout=tick_s)
                if not self.ended:
                    tick()
        finally:
            reader.close()
            self._loop.remove_writer(self._sock.fileno())
            self._end.cancel()  # unless it has ended by itself
        self._end.result()

    def close(self, error: Exception) -> None:
        if not self.ended:
            self._end.set_exception(error)

    def _read(self, data: memoryview) -> None:
        if not self.ended:
            self.read_s = self._now_s()
            self._take(data)

    def drop_unsent(self, size: int) -> None:
        """Drop queued messages of `size` bytes that are out of date, except one that is partly sent."""
        self._unsent = self._unsent[: len(self._unsent) % size]

    def send(self, data: bytes) -> None:
        """Queue bytes and send them as far as the peer reads."""
        if not self.ended:
            self._unsent += data
            self._flush()

    def _flush(self) -> None:
        try:
            sent = self._sock.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.close(error)
            return
        self._unsent = self._unsent[sent:]
        if sent:
            self.wrote_s = self._now_s()
        if self._unsent:
            self._loop.add_writer(self._sock.fileno(), self._flush)
        else:
            self._loop.remove_writer(self._sock.fileno())
