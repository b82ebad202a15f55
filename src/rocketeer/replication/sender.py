"""The master's end of one slave's connection: reports in, log bytes out.

first report -> [the log, piece by piece] <-> reports        `next_offset`: of the next piece
                                                             `acknowledged`: what the slave has
"""

import logging
from collections.abc import Callable
from typing import Final

from rocketeer.clock import Clock
from rocketeer.errors import ReplicationError
from rocketeer.model.offsets import LogOffset
from rocketeer.replication.log_sender import LogSender, SentLog
from rocketeer.replication.peer_reader import PeerReader
from rocketeer.replication.stream import HEADER, HELLO, BoundKind, ReportReader, note
from rocketeer.security.peer_socket import PeerSocket

log = logging.getLogger(__name__)

OURS_PIECE_BYTES: Final = 512 << 10
"""A slave of ours reads larger pieces than RocketMQ's, which have a buffer of 32 KiB."""
READ_BYTES: Final = 32 << 10


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
        self.acknowledged = LogOffset(-1)
        self.is_ours = False
        """Whether the slave said HELLO."""
        self.closed = False
        self.last_read_s = clock.monotonic_s()
        self._log = sent_log
        self._clock = clock
        self._piece_bytes = piece_bytes
        self._on_report = on_report
        self._on_close = on_close
        self._reports = ReportReader()
        self._sender = LogSender(
            sock,
            sent_log,
            clock.monotonic_s,
            head=HEADER.pack,
            piece_bytes=self._largest_piece,
            failed=self._failed,
        )
        self._reader = PeerReader(
            sock, READ_BYTES, peer="slave", take=self._read, ended=self._failed, paced=True
        )

    @property
    def has_reported(self) -> bool:
        """Whether it said where its log ends."""
        return self._sender.next_offset >= 0

    @property
    def last_write_s(self) -> float:
        return self._sender.wrote_s

    # --- reports -----------------------------------------------------------------------------

    def _read(self, data: memoryview) -> None:
        self.last_read_s = self._clock.monotonic_s()
        reports = self._reports.feed(bytes(data))
        while reports and self._sender.next_offset < 0:
            self._reported(reports.pop(0))
        if reports:
            self._reported(
                max(reports)
            )  # it has what the furthest says, and may not say more than it was sent

    def _reported(self, report: LogOffset) -> None:
        if self._sender.next_offset < 0:
            self._first_report(report)
        elif report > self._sender.sent_offset:
            raise ReplicationError(
                f"it reports a log up to {report}, and was sent no more than up to {self._sender.sent_offset}"
            )
        elif report > self.acknowledged:
            self.acknowledged = report
            self._on_report()

    def _first_report(self, report: LogOffset) -> None:
        low, high = self._log.min_offset, self._log.max_offset
        if report == HELLO:
            self.is_ours = True
            self._sender.send_control(note(BoundKind.LOG_BEGINS, low) + note(BoundKind.LOG_ENDS, high))
            return
        # RocketMQ's rule: a slave without a log gets the last file only.
        last_file = LogOffset(high - high % self._log.segment_bytes)
        start = last_file if report == 0 and not self.is_ours else report
        if not low <= start <= high:
            raise ReplicationError(
                f"it asks for the log from {report} on, and this master has it from {low} to {high}: "
                "its store belongs to another log, or is too old to follow; start it with an empty one"
            )
        log.info("slave follows remote=%s from=%d end=%d", self.remote, start, high)
        self._sender.start_at(start)
        self.acknowledged = report
        self._on_report()
        self.heartbeat()
        self.wake()

    # --- the log -----------------------------------------------------------------------------

    def wake(self) -> None:
        """The log has grown: send it, unless that is under way."""
        self._sender.wake()

    def heartbeat(self) -> None:
        if self._sender.next_offset >= 0:
            self._sender.send_control(HEADER.pack(self._sender.next_offset, 0))

    def _largest_piece(self, limit: int) -> int:
        return max(self._piece_bytes, min(OURS_PIECE_BYTES, limit)) if self.is_ours else self._piece_bytes

    # --- the end -----------------------------------------------------------------------------

    def _failed(self, error: Exception) -> None:
        if isinstance(error, ReplicationError):
            log.error("slave refused remote=%s reason=%s", self.remote, error)
        self.close(str(error))

    def close(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        log.warning("slave gone remote=%s acknowledged=%d reason=%s", self.remote, self.acknowledged, reason)
        self._reader.close()
        self._sender.close()
        self._on_close(self)
