"""Sends the log to one other server: a slave, or a member of a group.

The bytes go from the log's mapping to the socket, in turns so short that nobody notices, which all such peers share
(`remoting/fair_queue.py`); nothing is buffered here, so a peer that does not read costs nothing. What lies far back
in the log may have to come from the disk, and is sent from a thread; `pacing.py` says how fast.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from rocketeer.errors import ReplicationError
from rocketeer.model.offsets import LogOffset
from rocketeer.remoting.fair_queue import PEERS, fair_queue
from rocketeer.replication.pacing import Pace, loop_busy_s
from rocketeer.security.peer_socket import PeerSocket

TURN_BYTES: Final = 256 << 10
"""Most bytes sent in one turn of the loop: a tenth of a millisecond."""
THREAD_BYTES: Final = 4 << 20
"""Most bytes sent by one trip into a thread."""
PIECES_MAX: Final = 256
"""The kernel takes no more than 1024 parts in one call; a piece is two."""
HOT_BYTES: Final = 64 << 20
"""How much of the log's end is surely in memory."""
SENDING_THREADS: Final = 2
"""For all peers that are far behind: each more would be one more that the loop shares the interpreter with."""
_sending: Final = ThreadPoolExecutor(SENDING_THREADS, thread_name_prefix="rocketeer-log-sender")


class SentLog(Protocol):
    """What a sender asks of the log."""

    segment_bytes: int

    @property
    def min_offset(self) -> LogOffset: ...

    @property
    def max_offset(self) -> LogOffset: ...

    def read(self, offset: LogOffset, size: int) -> memoryview | None:
        """Bytes within one file; None if the log does not have them (any more)."""
        ...


class UnsentBytes:
    """What was made for the socket and not taken by it yet: headers, and slices of the log behind them."""

    def __init__(self) -> None:
        self.parts: list[memoryview] = []
        self.log_bytes = 0
        """How many of the bytes are the log's."""
        self._are_log: list[bool] = []

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, head: bytes, data: memoryview | None = None) -> None:
        self.parts.append(memoryview(head))
        self._are_log.append(False)
        if data is not None:
            self.parts.append(data)
            self._are_log.append(True)
            self.log_bytes += len(data)

    def took(self, count: int) -> None:
        """Drop `count` bytes from the front: the socket has taken them."""
        gone = 0
        for part, is_log in zip(self.parts, self._are_log, strict=True):
            taken = min(count, len(part))
            count -= taken
            self.log_bytes -= taken if is_log else 0
            if taken < len(part):
                self.parts[gone] = part[taken:]
                break
            gone += 1
        del self.parts[:gone], self._are_log[:gone]

    def clear(self) -> None:
        self.took(sum(map(len, self.parts)))


class LogSender:
    """Sends the log to one peer; owns the socket's sending side. Belongs to the loop thread.

    `head` makes the header of a piece of the log from its offset and size, `piece_bytes` says how large one may be in
    a turn of so many bytes. `failed` is told when nothing more can be sent.
    """

    def __init__(
        self,
        sock: PeerSocket,
        sent_log: SentLog,
        now_s: Callable[[], float],
        *,
        head: Callable[[LogOffset, int], bytes],
        piece_bytes: Callable[[int], int],
        failed: Callable[[Exception], None],
    ) -> None:
        self.next_offset = LogOffset(-1)
        """Log offset of the next piece; -1 while the peer has not said where to begin."""
        self.wrote_s = now_s()
        self._sock = sock
        self._log = sent_log
        self._now_s = now_s
        self._head = head
        self._piece_bytes = piece_bytes
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._unsent = UnsentBytes()
        self._pace = Pace()
        self._busy = False  # a turn is scheduled, the socket is full, a thread sends, or it rests
        self._in_thread = False
        self._rests = False
        self._closed = False

    @property
    def sent_offset(self) -> LogOffset:
        """Up to here the peer can have the log from us: the kernel has taken it, or a thread is giving it."""
        return self.next_offset if self._in_thread else LogOffset(self.next_offset - self._unsent.log_bytes)

    def start_at(self, offset: LogOffset) -> None:
        """Begin with the log at this offset: the peer has said what it has."""
        assert self.next_offset < 0, "a peer says so once"
        self.next_offset = offset

    def send_control(self, data: bytes) -> None:
        """Send control bytes between pieces of the log; dropped if the peer is not reading."""
        if not self._closed and not self._unsent and not self._in_thread and not self._rests:
            self._unsent.add(data)
            self._send()

    def wake(self) -> None:
        """The log has grown: send it, unless that is under way."""
        if not self._busy and not self._closed and 0 <= self.next_offset < self._log.max_offset:
            self._busy = True
            fair_queue(PEERS).add(self)

    def close(self) -> None:
        """Close this and the socket: at once, or when the thread that sends has given it back."""
        if self._closed:
            return
        self._closed = True
        fair_queue(PEERS).remove(self)
        self._loop.remove_writer(self._sock.fileno())
        if not self._in_thread:  # else its descriptor could be another connection's by now
            self._unsent.clear()
            self._sock.close()

    # --- turns -------------------------------------------------------------------------------

    def take_turn(self, ends_s: float) -> None:
        """Send a little of the log, or of what the socket did not take before."""
        self._busy = False
        if self._closed:
            return
        try:
            if self._unsent and self._is_far_behind():
                self._send_in_thread()
            elif self._unsent:
                self._send()
            elif self._is_far_behind():
                self._add_pieces(THREAD_BYTES)
                self._send_in_thread()
            else:
                self._add_pieces(TURN_BYTES)
                self._send()
        except ReplicationError as error:
            self._failed(error)
            return
        self.wake()

    def _is_far_behind(self) -> bool:
        return self._log.max_offset - self.next_offset > HOT_BYTES

    def _add_pieces(self, limit: int) -> None:
        """Add headers and slices of the log to what is to be sent."""
        end = self._log.max_offset
        piece_bytes = self._piece_bytes(limit)
        for _ in range(PIECES_MAX):
            at = self.next_offset
            if at >= end or limit <= 0:
                break
            in_file = self._log.segment_bytes - at % self._log.segment_bytes
            size = min(piece_bytes, in_file, end - at)
            data = self._log.read(at, size)
            if data is None:
                raise ReplicationError(
                    f"it is at {at}, and the log begins at {self._log.min_offset}: files it needed were deleted"
                )
            self._unsent.add(self._head(at, size), data)
            self.next_offset = LogOffset(self.next_offset + size)
            limit -= size

    def _send(self) -> None:
        """Give the kernel what it takes; the rest waits until the peer has read."""
        try:
            sent = self._sock.sendmsg(self._unsent.parts)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._failed(error)
            return
        self._took(sent)
        self._wait_if_full()

    def _took(self, sent: int) -> None:
        if sent:
            self.wrote_s = self._now_s()
        self._unsent.took(sent)

    def _wait_if_full(self) -> None:
        if self._unsent:
            self._busy = True
            self._loop.add_writer(self._sock.fileno(), self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._sock.fileno())
        fair_queue(PEERS).add(self)

    # --- a peer that is far behind -----------------------------------------------------------

    def _send_in_thread(self) -> None:
        self._busy = self._in_thread = True
        sending = self._loop.run_in_executor(_sending, send_now, self._sock, self._unsent.parts)
        sending.add_done_callback(self._sent_in_thread)

    def _sent_in_thread(self, sending: "asyncio.Future[int]") -> None:
        self._busy = self._in_thread = False
        error = sending.exception()  # looked at also when nobody needs it: asyncio would log a trace
        if self._closed:
            self._unsent.clear()
            self._sock.close()
            return
        if error is not None:
            assert isinstance(error, Exception)
            self._failed(error)
            return
        sent = sending.result()
        self._took(sent)
        now_s = self._now_s()
        self._pace.look(now_s, loop_busy_s())
        rest_s = self._pace.rest_s(now_s, sent)
        if rest_s > 0:
            # Nothing is said meanwhile either: it could fill the socket, and then two threads would send at once.
            self._busy = self._rests = True
            self._loop.call_later(rest_s, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        self._busy = self._rests = False
        if not self._closed:
            self._wait_if_full()
            self.wake()


def send_now(sock: PeerSocket, parts: list[memoryview]) -> int:
    try:
        return sock.sendmsg(parts)
    except BlockingIOError:
        return 0
