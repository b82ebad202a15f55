"""A follower's end: connects to the leader, copies its log, acknowledges and promises.

    HELLO -> WELCOME: where our logs part -> [DATA -> append -> ACK], BEAT -> PROMISE

What is acknowledged was written in the leader's epoch, and that epoch is on our disk before.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from rocketeer.errors import ReplicationError
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.frames import (
    BEAT_NUMBER,
    FrameKind,
    GroupFrame,
    Hello,
    LogBytes,
    MemberFrameReader,
    Welcome,
    decode,
    frame,
)
from rocketeer.model.offsets import LogOffset
from rocketeer.replication.copied_log import CopiedLog, append_copied
from rocketeer.replication.stream_connection import StreamConnection
from rocketeer.security.peer_socket import PeerSocket

READ_BYTES: Final = 256 << 10
CONNECT_S: Final = 2.0
TICK_S: Final = 0.1


class LogMustBeCut(ReplicationError):
    """Our log has what the leader's has not: it goes before we can follow."""

    def __init__(self, offset: LogOffset, log_end: LogOffset) -> None:
        super().__init__(f"our log ends at {log_end}, and is the leader's only up to {offset}")
        self.offset = offset


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
        on_beat: Callable[[LogOffset], None],
        is_ready: Callable[[], bool],
    ) -> None:
        """`on_welcome` returns when the leader's epochs are on disk, `on_beat` when we are bound by our promise.

        Nothing is acknowledged before `is_ready`: the tables that go with the log are here.
        """
        self._store = store
        self._clock = clock
        self._epoch = epoch
        self._flushes = flushes
        self._silence_s_max = silence_s_max
        self._on_welcome = on_welcome
        self._on_beat = on_beat
        self._is_ready = is_ready
        self._frames = MemberFrameReader()
        self._connection = StreamConnection(sock, READ_BYTES, clock, peer="leader", take=self._read)
        self._welcomed = False
        self._acknowledged = LogOffset(-1)

    async def run(self, hello: Hello) -> None:
        """Copy until the connection ends; raises why."""
        self._connection.send(frame(FrameKind.HELLO, self._epoch, hello.log_end, msgspec.json.encode(hello)))
        await self._connection.run(self._tick, TICK_S)

    def _tick(self) -> None:
        if self._clock() - self._connection.read_s > self._silence_s_max:
            self._connection.close(
                ReplicationError(f"nothing came from the leader for {self._silence_s_max:g} s")
            )

    # --- what comes --------------------------------------------------------------------------

    def _read(self, data: memoryview) -> None:
        for each in self._frames.feed(data):
            self._take(each)
        if self._welcomed:
            self._acknowledge()

    def _take(self, each: GroupFrame | LogBytes) -> None:
        if isinstance(each, GroupFrame) and each.kind is FrameKind.REFUSED:
            raise ReplicationError(f"the leader refuses: {each.payload.decode('utf-8', 'replace')}")
        if each.epoch != self._epoch:
            raise ReplicationError(f"a frame of epoch {each.epoch}, and this one is {self._epoch}")
        if isinstance(each, LogBytes):
            self._copy(each.offset, each.data)
        elif each.kind is FrameKind.WELCOME:
            self._welcome(each.offset, decode(each.payload, Welcome))
        elif each.kind is FrameKind.BEAT and len(each.payload) == BEAT_NUMBER.size:
            self._on_beat(each.offset)
            self._connection.send(frame(FrameKind.PROMISE, self._epoch, payload=each.payload))
        else:
            raise ReplicationError(f"a leader sends {each.kind.name}")

    def _welcome(self, start: LogOffset, welcome: Welcome) -> None:
        end = self._store.max_log_offset
        if start < end:
            raise LogMustBeCut(start, end)
        if start > end and end:
            raise ReplicationError(f"the leader goes on at {start}, and our log ends at {end}")
        self._on_welcome(welcome)
        self._welcomed = True

    def _copy(self, offset: LogOffset, data: memoryview) -> None:
        if not self._welcomed:
            raise ReplicationError("log bytes before WELCOME")
        append_copied(self._store, offset, data, of="leader")

    # --- what goes ---------------------------------------------------------------------------

    def _acknowledge(self) -> None:
        end = self._store.max_log_offset
        if end <= self._acknowledged or not self._is_ready():
            return
        if self._flushes:
            self._store.when_durable(end, lambda durable: self._ack(end) if durable else None)
        else:
            self._ack(end)

    def _ack(self, end: LogOffset) -> None:
        if not self._connection.ended and end > self._acknowledged:
            self._acknowledged = end
            self._connection.send(frame(FrameKind.ACK, self._epoch, end))
