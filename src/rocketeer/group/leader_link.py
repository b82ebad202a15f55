"""The leader's end of one member's connection: acknowledgements and promises in, log bytes and beats out."""

import logging
from collections.abc import Callable
from typing import Final

from rocketeer.errors import ReplicationError
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.frames import (
    BEAT_NUMBER,
    HELLO_BYTES_MAX,
    FrameKind,
    GroupFrame,
    Hello,
    MemberFrameReader,
    data_header,
    decode,
    frame,
)
from rocketeer.model.offsets import LogOffset
from rocketeer.replication.log_sender import LogSender, SentLog
from rocketeer.replication.peer_reader import PeerReader
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
        admit: Callable[["Follower", Hello], tuple[LogOffset, bytes]],
        on_ack: Callable[["Follower"], None],
        on_promise: Callable[["Follower", int], None],
        on_close: Callable[["Follower"], None],
    ) -> None:
        self.remote = remote
        self.hello: Hello | None = None
        self.epoch = 0
        self.acknowledged = LogOffset(-1)
        self.promised_until_s = 0.0
        self.closed = False
        self.began_s = self.heard_s = clock()
        self._clock = clock
        self._admit = admit
        self._on_ack = on_ack
        self._on_promise = on_promise
        self._on_close = on_close
        self._frames = MemberFrameReader(payload_bytes_max=HELLO_BYTES_MAX)
        self._sender = LogSender(
            sock,
            sent_log,
            clock,
            head=lambda offset, size: data_header(self.epoch, offset, size),
            piece_bytes=lambda limit: PIECE_BYTES,
            failed=self._lost,
        )
        self._reader = PeerReader(
            sock, READ_BYTES, peer="member", take=self._read, ended=self._ended, paced=True
        )

    @property
    def member(self) -> int:
        return 0 if self.hello is None else self.hello.member

    # --- what comes --------------------------------------------------------------------------

    def _read(self, data: memoryview) -> None:
        self.heard_s = self._clock()
        for each in self._frames.feed(data):
            if not isinstance(each, GroupFrame):
                raise ReplicationError("a follower sends log bytes")
            self._take(each)
            if self.closed:
                return

    def _take(self, each: GroupFrame) -> None:
        if self.hello is None:
            if each.kind is not FrameKind.HELLO:
                raise ReplicationError("a member begins with HELLO")
            self._greet(decode(each.payload, Hello))
            return
        if each.epoch != self.epoch:
            raise ReplicationError(
                f"member {self.member} is in epoch {each.epoch}, this leader in {self.epoch}"
            )
        if each.kind is FrameKind.ACK:
            sent = self._sender.sent_offset
            if each.offset > sent:
                raise ReplicationError(
                    f"member {self.member} acknowledges {each.offset}, and was sent no more than {sent}"
                )
            if each.offset > self.acknowledged:
                self.acknowledged = each.offset
                self._on_ack(self)
        elif each.kind is FrameKind.PROMISE and len(each.payload) == BEAT_NUMBER.size:
            self._on_promise(self, BEAT_NUMBER.unpack(each.payload)[0])
        else:
            raise ReplicationError(f"a follower sends {each.kind.name}")

    def _greet(self, hello: Hello) -> None:
        start, answer = self._admit(self, hello)
        self.hello = hello
        self._sender.start_at(start)
        self._sender.send_control(answer)
        self.wake()

    # --- what goes ---------------------------------------------------------------------------

    def wake(self) -> None:
        """The log has grown: send it, unless that is under way."""
        self._sender.wake()

    def beat(self, confirmed: LogOffset, number: int) -> None:
        if self.hello is not None:
            self._sender.send_control(frame(FrameKind.BEAT, self.epoch, confirmed, BEAT_NUMBER.pack(number)))

    # --- the end -----------------------------------------------------------------------------

    def _ended(self, error: Exception) -> None:
        """The connection has ended, or the member sent what no member sends: then it is told why it is refused."""
        if isinstance(error, ReplicationError):
            log.error("member refused remote=%s reason=%s", self.remote, error)
            self._sender.send_control(
                frame(FrameKind.REFUSED, self.epoch, payload=str(error).encode()[:4096])
            )
        self.close(str(error))

    def _lost(self, error: Exception) -> None:
        """Writing to the connection has failed."""
        if isinstance(error, ReplicationError):
            log.error("member lost remote=%s reason=%s", self.remote, error)
        self.close(str(error))

    def close(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        log.warning(
            "member gone member=%d remote=%s acknowledged=%d reason=%s",
            self.member, self.remote, self.acknowledged, reason,
        )  # fmt: skip
        self._reader.close()
        self._sender.close()
        self._on_close(self)
