"""The master's end of one slave's connection: reports in, log bytes out.

The bytes go from the log's mapping to the socket, in turns of the loop so short that nobody notices; nothing is
buffered here, so a slave that does not read costs nothing. What lies far back in the log may have to come from the
disk, and is sent from a thread; `pacing.py` says how fast.

    first report -> [the log, piece by piece] <-> reports        `next_offset`: of the next piece
                                                                 `acknowledged`: what the slave has
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from rocketeer.clock import Clock
from rocketeer.errors import ReplicationError
from rocketeer.replication.pacing import Pace, loop_busy_s
from rocketeer.replication.stream import HEADER, HELLO, Note, ReportReader, note
from rocketeer.security.peer_socket import PeerSocket

log = logging.getLogger(__name__)

TURN_BYTES: Final = 256 << 10
"""Of one turn of the loop: a tenth of a millisecond."""
THREAD_BYTES: Final = 4 << 20
"""Of one trip into a thread."""
OURS_PIECE_BYTES: Final = 512 << 10
"""A slave of ours reads larger pieces than RocketMQ's, which have a buffer of 32 KiB."""
PIECES_MAX: Final = 256
"""The kernel takes no more than 1024 parts in one call; a piece is two."""
HOT_BYTES: Final = 64 << 20
"""So much of the log's end is surely in memory."""
READ_BYTES: Final = 4096


class SentLog(Protocol):
    """What a sender asks of the log."""

    segment_bytes: int

    @property
    def min_offset(self) -> int: ...

    @property
    def max_offset(self) -> int: ...

    def read(self, offset: int, size: int) -> memoryview | None:
        """Bytes within one file; None if the log does not have them (any more)."""
        ...


class Outgoing:
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
        """So many bytes of the front are gone."""
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


class SlaveLink:
    """One connected slave. Belongs to the loop thread."""

    def __init__(
        self,
        sock: PeerSocket,
        remote: str,
        sent_log: SentLog,
        clock: Clock,
        *,
        piece_bytes: int,
        on_report: Callable[[], None],
        on_close: Callable[["SlaveLink"], None],
    ) -> None:
        """`sock` does not block. `on_report` is called whenever `acknowledged` grew."""
        self.remote = remote
        self.acknowledged = -1
        self.next_offset = -1
        self.is_ours = False
        """Whether the slave said HELLO."""
        self.closed = False
        self._sock = sock
        self._log = sent_log
        self._clock = clock
        self._piece_bytes = piece_bytes
        self._on_report = on_report
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._reports = ReportReader()
        self._unsent = Outgoing()
        self._busy = False  # a turn is scheduled, the socket is full, a thread sends, or the link rests
        self._in_thread = False
        self._pace = Pace()
        self.last_read_s = self.last_write_s = clock.monotonic_s()
        self._loop.add_reader(sock.fileno(), self._readable)
        self._loop.call_soon(self._readable)  # something may have been read before

    @property
    def sent_offset(self) -> int:
        """Up to here the slave can have the log from us: the kernel has taken it, or a thread is giving it."""
        return self.next_offset if self._in_thread else self.next_offset - self._unsent.log_bytes

    # --- reports -----------------------------------------------------------------------------

    def _readable(self) -> None:
        if self.closed:
            return
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        if not data:
            self.close("the slave closed it")
            return
        self.last_read_s = self._clock.monotonic_s()
        try:
            for report in self._reports.feed(data):
                self._reported(report)
        except ReplicationError as error:
            log.error("slave refused remote=%s reason=%s", self.remote, error)
            self.close("refused")

    def _reported(self, report: int) -> None:
        if self.next_offset < 0:
            self._first_report(report)
        elif report > self.sent_offset:
            raise ReplicationError(
                f"it reports a log up to {report}, and was sent no more than up to {self.sent_offset}"
            )
        elif report > self.acknowledged:
            self.acknowledged = report
            self._on_report()

    def _first_report(self, report: int) -> None:
        low, high = self._log.min_offset, self._log.max_offset
        if report == HELLO:
            self.is_ours = True
            self._unsent.add(note(Note.LOG_BEGINS, low) + note(Note.LOG_ENDS, high))
            self._send()
            return
        # RocketMQ's rule: a slave without a log gets the last file only.
        start = high - high % self._log.segment_bytes if report == 0 and not self.is_ours else report
        if not low <= start <= high:
            raise ReplicationError(
                f"it asks for the log from {report} on, and this master has it from {low} to {high}: "
                "its store belongs to another log, or is too old to follow; start it with an empty one"
            )
        log.info("slave follows remote=%s from=%d end=%d", self.remote, start, high)
        self.next_offset = start
        self.acknowledged = report
        self._on_report()
        self.heartbeat()
        self.wake()

    # --- the log -----------------------------------------------------------------------------

    def wake(self) -> None:
        """The log has grown: send it, unless that is under way."""
        if not self._busy and not self.closed and 0 <= self.next_offset < self._log.max_offset:
            self._busy = True
            self._loop.call_soon(self._turn)

    def heartbeat(self) -> None:
        if self.next_offset >= 0 and not self._unsent and not self._in_thread and not self.closed:
            self._unsent.add(HEADER.pack(self.next_offset, 0))
            self._send()

    def _turn(self) -> None:
        self._busy = False
        if self.closed:
            return
        try:
            if self._is_far_behind():
                self._add_pieces(THREAD_BYTES)
                self._send_in_thread()
            else:
                self._add_pieces(TURN_BYTES)
                self._send()
        except ReplicationError as error:
            log.error("slave lost remote=%s reason=%s", self.remote, error)
            self.close("refused")
            return
        self.wake()

    def _is_far_behind(self) -> bool:
        return self._log.max_offset - self.next_offset > HOT_BYTES

    def _add_pieces(self, limit: int) -> None:
        """Headers and slices of the log, next to each other."""
        end = self._log.max_offset
        piece_bytes = self._piece_bytes
        if self.is_ours:
            piece_bytes = max(piece_bytes, min(OURS_PIECE_BYTES, limit))
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
            self._unsent.add(HEADER.pack(at, size), data)
            self.next_offset += size
            limit -= size

    def _send(self) -> None:
        """Give the kernel what it takes; the rest waits until the slave has read."""
        try:
            sent = self._sock.sendmsg(self._unsent.parts)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.close(str(error))
            return
        self._took(sent)
        self._wait_if_full()

    def _took(self, sent: int) -> None:
        if sent:
            self.last_write_s = self._clock.monotonic_s()
        self._unsent.took(sent)

    def _wait_if_full(self) -> None:
        if self._unsent:
            self._busy = True
            self._loop.add_writer(self._sock.fileno(), self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._sock.fileno())
        if self._is_far_behind():
            self._send_in_thread()
            return
        self._busy = False
        self._send()
        self.wake()

    def _send_in_thread(self) -> None:
        self._busy = self._in_thread = True
        sending = self._loop.run_in_executor(None, send_now, self._sock, self._unsent.parts)
        sending.add_done_callback(self._sent_in_thread)

    def _sent_in_thread(self, sending: "asyncio.Future[int]") -> None:
        self._busy = self._in_thread = False
        if self.closed:
            self._sock.close()
            return
        error = sending.exception()
        if error is not None:
            self.close(str(error))
            return
        sent = sending.result()
        self._took(sent)
        now_s = self._clock.monotonic_s()
        self._pace.look(now_s, loop_busy_s())
        rest_s = self._pace.rest_s(now_s, sent)
        if rest_s > 0:
            self._busy = True
            self._loop.call_later(rest_s, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        self._busy = False
        if not self.closed:
            self._wait_if_full()
            self.wake()

    # --- the end -----------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        log.warning("slave gone remote=%s acknowledged=%d reason=%s", self.remote, self.acknowledged, reason)
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._unsent.clear()
        if not self._in_thread:  # else its descriptor could be another connection's by now
            self._sock.close()
        self._on_close(self)


def send_now(sock: PeerSocket, parts: list[memoryview]) -> int:
    try:
        return sock.sendmsg(parts)
    except BlockingIOError:
        return 0
