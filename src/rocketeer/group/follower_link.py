"""A follower's end: connects to the leader, copies its log, acknowledges and promises.

    HELLO -> WELCOME: where our logs part -> [DATA -> append -> ACK], BEAT -> PROMISE

What is acknowledged was written in the leader's epoch, and that epoch is on our disk before.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from rocketeer.errors import ReplicationError, StoreError, StoreRefused
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.frames import (
    BEAT_NUMBER,
    Frame,
    FrameReader,
    Hello,
    Kind,
    LogBytes,
    Welcome,
    decode,
    frame,
)
from rocketeer.security.peer_socket import PeerSocket

log = logging.getLogger(__name__)

READ_BYTES: Final = 256 << 10
CONNECT_S: Final = 2.0
TICK_S: Final = 0.1


class MustCut(ReplicationError):
    """Our log has what the leader's has not: it goes before we can follow."""

    def __init__(self, offset: int, log_end: int) -> None:
        super().__init__(f"our log ends at {log_end}, and is the leader's only up to {offset}")
        self.offset = offset


class CopiedLog(Protocol):
    """What following asks of the store."""

    def append_raw(self, offset: int, data: memoryview) -> None: ...

    def when_durable(self, log_offset: int, callback: Callable[[bool], None]) -> None: ...

    @property
    def max_log_offset(self) -> int: ...

    @property
    def failure(self) -> StoreRefused | None: ...


class LeaderLink:
    """One connection to the leader of one epoch."""

    def __init__(
        self,
        sock: PeerSocket,
        store: CopiedLog,
        clock: BootClock,
        *,
        epoch: int,
        flushes: bool,
        silence_s_max: float,
        on_welcome: Callable[[Welcome], None],
        on_beat: Callable[[int], None],
        is_ready: Callable[[], bool],
    ) -> None:
        """`on_welcome` returns when the leader's epochs are on disk, `on_beat` when we are bound by our promise.

        Nothing is acknowledged before `is_ready`: the tables that go with the log are here.
        """
        self._sock = sock
        self._store = store
        self._clock = clock
        self._epoch = epoch
        self._flushes = flushes
        self._silence_s_max = silence_s_max
        self._on_welcome = on_welcome
        self._on_beat = on_beat
        self._is_ready = is_ready
        self._frames = FrameReader()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._read_s = clock()
        self._welcomed = False
        self._acknowledged = -1
        self._unsent = b""

    async def run(self, hello: Hello) -> None:
        """Copy until the connection ends; raises why."""
        fd = self._sock.fileno()
        self._loop.add_reader(fd, self._readable)
        self._loop.call_soon(self._readable)  # something may have been read before
        self._send(frame(Kind.HELLO, self._epoch, hello.log_end, msgspec.json.encode(hello)))
        try:
            while not self._ended.done():
                await asyncio.wait((self._ended,), timeout=TICK_S)
                if not self._ended.done() and self._clock() - self._read_s > self._silence_s_max:
                    self.close(
                        ReplicationError(f"nothing came from the leader for {self._silence_s_max:g} s")
                    )
        finally:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
            self._ended.cancel()  # unless it has ended by itself
        self._ended.result()

    def close(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
            self._loop.remove_reader(self._sock.fileno())

    # --- what comes --------------------------------------------------------------------------

    def _readable(self) -> None:
        if self._ended.done():
            return
        try:
            count = self._sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(error)
            return
        if not count:
            self.close(ReplicationError("the leader closed the connection"))
            return
        self._read_s = self._clock()
        try:
            for each in self._frames.feed(self._buffer[:count]):
                self._take(each)
        except (ReplicationError, StoreError, StoreRefused) as error:
            self.close(error)
        if self._welcomed and not self._ended.done():
            self._acknowledge()

    def _take(self, each: Frame | LogBytes) -> None:
        if isinstance(each, Frame) and each.kind is Kind.REFUSED:
            raise ReplicationError(f"the leader refuses: {each.payload.decode('utf-8', 'replace')}")
        if each.epoch != self._epoch:
            raise ReplicationError(f"a frame of epoch {each.epoch}, and this one is {self._epoch}")
        if isinstance(each, LogBytes):
            self._copy(each.offset, each.data)
        elif each.kind is Kind.WELCOME:
            self._welcome(each.offset, decode(each.payload, Welcome))
        elif each.kind is Kind.BEAT and len(each.payload) == BEAT_NUMBER.size:
            self._on_beat(each.offset)
            self._send(frame(Kind.PROMISE, self._epoch, 0, each.payload))
        else:
            raise ReplicationError(f"a leader sends {each.kind.name}")

    def _welcome(self, start: int, welcome: Welcome) -> None:
        end = self._store.max_log_offset
        if start < end:
            raise MustCut(start, end)
        if start > end and end:
            raise ReplicationError(f"the leader goes on at {start}, and our log ends at {end}")
        self._on_welcome(welcome)
        self._welcomed = True

    def _copy(self, offset: int, data: memoryview) -> None:
        if not self._welcomed:
            raise ReplicationError("log bytes before WELCOME")
        failure = self._store.failure
        if failure is not None:
            raise ReplicationError(f"nothing is copied any more: {failure}")
        end = self._store.max_log_offset
        if end and offset != end:
            raise ReplicationError(f"the leader sends its log at {offset}, and ours ends at {end}")
        self._store.append_raw(offset, data)

    # --- what goes ---------------------------------------------------------------------------

    def _acknowledge(self) -> None:
        end = self._store.max_log_offset
        if end <= self._acknowledged or not self._is_ready():
            return
        if self._flushes:
            self._store.when_durable(end, lambda durable: self._ack(end) if durable else None)
        else:
            self._ack(end)

    def _ack(self, end: int) -> None:
        if not self._ended.done() and end > self._acknowledged:
            self._acknowledged = end
            self._send(frame(Kind.ACK, self._epoch, end))

    def _send(self, data: bytes) -> None:
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
        fd = self._sock.fileno()
        if self._unsent:
            self._loop.add_writer(fd, self._flush)
        else:
            self._loop.remove_writer(fd)
