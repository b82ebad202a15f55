"""The leader's end of one member's connection: acknowledgements and promises in, log bytes and beats out.

The bytes go from the log's mapping to the socket, in turns of the loop so short that nobody notices; what lies far
back in the log may have to come from the disk, and is sent from a thread.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from rocketeer.errors import ReplicationError
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.frames import (
    BEAT_NUMBER,
    Frame,
    FrameReader,
    Hello,
    Kind,
    data_header,
    decode,
    frame,
)
from rocketeer.replication.sender import (
    HOT_BYTES,
    PIECES_MAX,
    THREAD_BYTES,
    TURN_BYTES,
    Outgoing,
    SentLog,
    send_now,
)
from rocketeer.security.peer_socket import PeerSocket

log = logging.getLogger(__name__)

READ_BYTES: Final = 64 << 10
PIECE_BYTES: Final = 128 << 10


class Follower:
    """One connected member. Belongs to the loop thread.

    `admit` is called with the first frame and says where to go on and with which frame to answer; it raises
    ReplicationError for a member that cannot follow. `on_ack` is called whenever `acknowledged` grew.
    """

    def __init__(
        self,
        sock: PeerSocket,
        remote: str,
        sent_log: SentLog,
        clock: BootClock,
        *,
        admit: Callable[["Follower", Hello], tuple[int, bytes]],
        on_ack: Callable[["Follower"], None],
        on_promise: Callable[["Follower", int], None],
        on_close: Callable[["Follower"], None],
    ) -> None:
        self.remote = remote
        self.hello: Hello | None = None
        self.epoch = 0
        self.acknowledged = -1
        self.next_offset = -1
        self.promised_until_s = 0.0
        self.closed = False
        self.began_s = self.heard_s = clock()
        self._sock = sock
        self._log = sent_log
        self._clock = clock
        self._admit = admit
        self._on_ack = on_ack
        self._on_promise = on_promise
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader()
        self._unsent = Outgoing()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._busy = False  # a turn is scheduled, the socket is full, or a thread sends
        self._in_thread = False
        self._loop.add_reader(sock.fileno(), self._readable)
        self._loop.call_soon(self._readable)  # something may have been read before

    @property
    def member(self) -> int:
        return 0 if self.hello is None else self.hello.member

    @property
    def sent_offset(self) -> int:
        """Up to here the member can have the log from us."""
        return self.next_offset if self._in_thread else self.next_offset - self._unsent.log_bytes

    # --- what comes --------------------------------------------------------------------------

    def _readable(self) -> None:
        if self.closed:
            return
        try:
            count = self._sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        if not count:
            self.close("the member closed it")
            return
        self.heard_s = self._clock()
        try:
            for each in self._frames.feed(self._buffer[:count]):
                if not isinstance(each, Frame):
                    raise ReplicationError("a follower sends log bytes")
                self._take(each)
                if self.closed:
                    return
        except ReplicationError as error:
            log.error("member refused remote=%s reason=%s", self.remote, error)
            self.refuse(str(error))

    def _take(self, each: Frame) -> None:
        if self.hello is None:
            if each.kind is not Kind.HELLO:
                raise ReplicationError("a member begins with HELLO")
            self._greet(decode(each.payload, Hello))
            return
        if each.epoch != self.epoch:
            raise ReplicationError(
                f"member {self.member} is in epoch {each.epoch}, this leader in {self.epoch}"
            )
        if each.kind is Kind.ACK:
            if each.offset > self.sent_offset:
                raise ReplicationError(
                    f"member {self.member} acknowledges {each.offset}, and was sent no more than {self.sent_offset}"
                )
            if each.offset > self.acknowledged:
                self.acknowledged = each.offset
                self._on_ack(self)
        elif each.kind is Kind.PROMISE and len(each.payload) == BEAT_NUMBER.size:
            self._on_promise(self, BEAT_NUMBER.unpack(each.payload)[0])
        else:
            raise ReplicationError(f"a follower sends {each.kind.name}")

    def _greet(self, hello: Hello) -> None:
        start, answer = self._admit(self, hello)
        self.hello = hello
        self.next_offset = start
        self._unsent.add(answer)
        self._send()
        self.wake()

    # --- what goes ---------------------------------------------------------------------------

    def wake(self) -> None:
        """The log has grown: send it, unless that is under way."""
        if not self._busy and not self.closed and 0 <= self.next_offset < self._log.max_offset:
            self._busy = True
            self._loop.call_soon(self._turn)

    def beat(self, confirmed: int, number: int) -> None:
        """Left out while the member does not read: nothing piles up here."""
        if self.hello is not None and not self.closed and not self._unsent and not self._in_thread:
            self._unsent.add(frame(Kind.BEAT, self.epoch, confirmed, BEAT_NUMBER.pack(number)))
            self._send()

    def refuse(self, why: str) -> None:
        """Say it and close."""
        if not self._in_thread and not self._unsent and not self.closed:
            self._unsent.add(frame(Kind.REFUSED, self.epoch, 0, why.encode()[:4096]))
            self._send()
        self.close("refused")

    def _turn(self) -> None:
        self._busy = False
        if self.closed:
            return
        try:
            if self._log.max_offset - self.next_offset > HOT_BYTES:
                self._add_pieces(THREAD_BYTES)
                self._send_in_thread()
            else:
                self._add_pieces(TURN_BYTES)
                self._send()
        except ReplicationError as error:
            log.error("member lost remote=%s reason=%s", self.remote, error)
            self.close("refused")
            return
        self.wake()

    def _add_pieces(self, limit: int) -> None:
        end = self._log.max_offset
        for _ in range(PIECES_MAX):
            at = self.next_offset
            if at >= end or limit <= 0:
                break
            in_file = self._log.segment_bytes - at % self._log.segment_bytes
            size = min(PIECE_BYTES, in_file, end - at)
            data = self._log.read(at, size)
            if data is None:
                raise ReplicationError(
                    f"it is at {at}, and the log begins at {self._log.min_offset}: files it needed were deleted"
                )
            self._unsent.add(data_header(self.epoch, at, size), data)
            self.next_offset += size
            limit -= size

    def _send(self) -> None:
        try:
            sent = self._sock.sendmsg(self._unsent.parts)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.close(str(error))
            return
        self._took(sent)

    def _took(self, sent: int) -> None:
        self._unsent.took(sent)
        if self._unsent:
            self._busy = True
            self._loop.add_writer(self._sock.fileno(), self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._sock.fileno())
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
        self._took(sending.result())
        self.wake()

    def close(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        log.warning(
            "member gone member=%d remote=%s acknowledged=%d reason=%s",
            self.member, self.remote, self.acknowledged, reason,
        )  # fmt: skip
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._unsent.clear()
        if not self._in_thread:  # else its descriptor could be another connection's by now
            self._sock.close()
        self._on_close(self)
