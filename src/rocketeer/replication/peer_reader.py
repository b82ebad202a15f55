"""Reads what another server sends on a stream: both ends of both streams, the HA port's and the members'.

The listening end does not know who calls. There whoever brings more than a few words waits for its turn
(`fair_queue.py`), and is served a piece at a time: however much all of them bring, the loop is kept for one turn.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from rocketeer.errors import ReplicationError, StoreError, StoreRefused
from rocketeer.remoting.fair_queue import PEERS, LoopReads, fair_queue
from rocketeer.security.peer_socket import PeerSocket

FEW_BYTES: Final = 256
"""Reports and acknowledgements of an honest peer: served at once."""
PIECE_BYTES: Final = 2 << 10
"""Most bytes of frames that are served at a time: a hundred small ones."""

_reads: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopReads] = WeakKeyDictionary()
"""What the reads of all of them take: that of a peer with TLS is decrypted, as it comes."""


class PeerReader:
    """Gives `take` the bytes as they come, valid until it returns; what it raises ends the connection.

    `ended` is told why nothing more will come: OSError when the connection is gone, otherwise what `take` raised.
    `paced`: much is served in turns. Belongs to the loop thread.
    """

    def __init__(
        self,
        sock: PeerSocket,
        buffer_bytes: int,
        *,
        peer: str,
        take: Callable[[memoryview], None],
        ended: Callable[[Exception], None],
        paced: bool = False,
    ) -> None:
        self._sock = sock
        self._peer = peer
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._take = take
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._reads = _reads.setdefault(self._loop, LoopReads()) if paced else None
        self._waiting = self._buffer[:0]
        """What came and waits for its turn; nothing is read meanwhile."""
        self._waits_to_read = False
        self._loop.add_reader(sock.fileno(), self._readable)
        self._loop.call_soon(self._readable)  # something may have been read before

    def _readable(self) -> None:
        if self._closed or self._waiting or self._waits_to_read:
            return
        if self._reads is not None and (self._reads.is_over() or fair_queue(PEERS)):
            self._waits_to_read = True
            self._wait()
        else:
            self._read()

    def _wait(self) -> None:
        self._loop.remove_reader(self._sock.fileno())
        fair_queue(PEERS).add(self)

    def _read(self) -> None:
        try:
            count = self._sock.recv_into(self._buffer)
            if not count:
                raise ConnectionResetError(f"the {self._peer} closed the connection")
        except BlockingIOError:
            return
        except OSError as error:
            self._ended(error)
            return
        if self._reads is not None and count > FEW_BYTES:
            self._waiting = self._buffer[:count]
            self._wait()
        else:
            self._give(self._buffer[:count])

    def take_turn(self, ends_s: float) -> None:
        """Serve what waits, a piece at least; then read on."""
        if self._waits_to_read:
            self._waits_to_read = False
            self._read()
            if self._waiting:
                return
        while self._waiting and not self._closed:
            piece, self._waiting = self._waiting[:PIECE_BYTES], self._waiting[PIECE_BYTES:]
            self._give(piece)
            if time.monotonic() >= ends_s:
                break
        if self._closed:
            return
        if self._waiting:
            fair_queue(PEERS).add(self)
        else:
            self._loop.add_reader(self._sock.fileno(), self._readable)

    def _give(self, data: memoryview) -> None:
        try:
            self._take(data)
        except (ReplicationError, StoreError, StoreRefused) as error:
            self._ended(error)

    def close(self) -> None:
        """Stop reading; called before the socket is closed."""
        if not self._closed:
            self._closed = True
            if self._waiting or self._waits_to_read:
                fair_queue(PEERS).remove(self)
            self._loop.remove_reader(self._sock.fileno())
