"""Every write that moves a half message: commit, rollback, asked again, given up; the table follows each at once.

What ends a half before an earlier one is settled is also said by an op message: progress cannot pass it yet.
"""

import logging
from itertools import islice
from typing import Final, Protocol

from rocketeer.broker.features.transaction import messages
from rocketeer.broker.features.transaction.half_table import HalfTable
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import OnWritten, Writer, WriteResult
from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.topic import TRANS_CHECK_MAX_TIME_TOPIC
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import PendingMessage, StoredMessage

log = logging.getLogger(__name__)

ROLL_SLICE: Final = 64
ROLL_S: Final = 0.003
"""Both bound one slice: halves may be large."""
NO_ROOM: Final = "its properties have no room for notes"
LOGGED_MOVES_MAX: Final = 100
"""Most halves given up in one round that are logged one by one; of more only how many."""


class LedgerStore(Protocol):
    """What the ledger asks of the store."""

    def message_at(self, log_offset: LogOffset) -> StoredMessage | None: ...

    def named_at(self, log_offset: LogOffset) -> StoredMessage | None: ...

    @property
    def max_log_offset(self) -> LogOffset: ...

    def expiry_ms(self) -> int:
        """The time, but for jumps of the clock."""
        ...


class Ledger:
    """Stores what moves half messages, and notes it in the table in one go. Belongs to the loop thread."""

    def __init__(
        self,
        table: HalfTable,
        *,
        store: LedgerStore,
        topics: TopicTable,
        writer: Writer,
        clock: Clock,
        store_host: bytes,
    ) -> None:
        self.table = table
        self.store = store
        self._topics = topics
        self._writer = writer
        self._clock = clock
        self._store_host = store_host
        self._moved = 0

    # --- verdicts ----------------------------------------------------------------------------

    def commit(self, half: StoredMessage, log_offset: LogOffset, done: OnWritten) -> None:
        """Give the message to its consumers; `half` is the copy the verdict names, `log_offset` the pending one.

        Raises ValueError for a half that does not say where it belongs.
        """
        put = self._writer.put_now(messages.committed(half, half.log_offset))
        if put.stored:
            self._settled(self.table.settle(log_offset, half), put, done)
        else:
            done(put)

    def rollback(self, half: StoredMessage, log_offset: LogOffset, done: OnWritten) -> None:
        self.write_op(self.table.settle(log_offset, half), done)

    # --- waiting on --------------------------------------------------------------------------

    def append_again(
        self, half: StoredMessage, copy: PendingMessage, *, passed_by: bool
    ) -> DispatchEntry | None:
        """Let a pending half go on as its copy; None when the store takes nothing now."""
        put = self._writer.put_now(copy)
        if not put.stored:
            log.warning(
                "half message not appended again log_offset=%d reason=%s", half.log_offset, put.remark
            )
            return None
        entry = put.appended[0]
        self._passed(self.table.replace(half, entry), passed_by)
        return entry

    def move_to_max_checks(self, half: StoredMessage, why: str, *, passed_by: bool) -> bool:
        """Move a half message whose end nobody knows to TRANS_CHECK_MAX_TIME_TOPIC, where operators find it. False
        when the store refuses the append."""
        self._topics.create_in_send_back(TRANS_CHECK_MAX_TIME_TOPIC, 1)
        put = self._writer.put_now(messages.max_checks_copy(half))
        if not put.stored:
            log.warning("half message not given up log_offset=%d reason=%s", half.log_offset, put.remark)
            return False
        self._moved += 1
        if self._moved <= LOGGED_MOVES_MAX:
            log.error(
                "half message given up: %s id=%.64s log_offset=%d topic=%s offset=%d",
                why, half.uniq_key, half.log_offset, TRANS_CHECK_MAX_TIME_TOPIC, put.appended[0].queue_offset,
            )  # fmt: skip
        self._passed(self.table.settle(half.log_offset, half), passed_by)
        return True

    def log_moved_count(self) -> None:
        """Log how many were given up since this was last called, if they were more than were logged one by one."""
        moved, self._moved = self._moved, 0
        if moved > LOGGED_MOVES_MAX:
            log.error(
                "half messages given up, not all told count=%d topic=%s", moved, TRANS_CHECK_MAX_TIME_TOPIC
            )

    def roll(self, below: LogOffset) -> bool:
        """Take a slice of the halves in the log below an offset further on; True when there are none left."""
        pending, until_s = self.table.pending, self._clock.monotonic_s() + ROLL_S
        for log_offset in [place for place in islice(pending, ROLL_SLICE) if place < below]:
            half = self.store.message_at(log_offset)
            if half is None:
                self.table.forget(log_offset)
            elif not self._move_on(half):
                return False
            if self._clock.monotonic_s() >= until_s:
                break
        return next(iter(pending), below) >= below

    def _move_on(self, half: StoredMessage) -> bool:
        copy = messages.rolled_copy(half, counted=True)
        if not messages.fits(copy):
            return self.move_to_max_checks(half, NO_ROOM, passed_by=False)
        return self.append_again(half, copy, passed_by=False) is not None

    def resume(self, message: StoredMessage, done: OnWritten) -> None:
        """Ask after it from the beginning, pending or given up."""
        put = self._writer.put_now(messages.resumed_copy(message))
        if not put.stored:
            done(put)
            return
        self.table.catch_up()
        pending = self.table.find(message)
        settled = None
        if pending is not None and pending != put.appended[0].log_offset:
            settled = self.table.settle(pending, message)
        self.table.note_copy(message, put.appended[0])
        if settled is not None:
            self._settled(settled, put, done)
        else:
            end = put.appended[0].end
            self._writer.when_durable(end, lambda code: done(WriteResult(code, None, put.appended)))

    # --- op messages -------------------------------------------------------------------------

    def write_op(self, half_offset: QueueOffset, done: OnWritten | None = None) -> None:
        """Say that the half there is settled; kept pending when the store takes nothing now."""

        def written(put: WriteResult) -> None:
            if not put.stored:
                self.table.pending_ops.append(half_offset)
            if done is not None:
                done(put)

        op = messages.op_message(half_offset, now_ms=self._clock.now_ms(), store_host=self._store_host)
        self._writer.put(op, written, wait=done is not None, internal=True)

    def flush_ops(self) -> None:
        """Write the pending op messages."""
        pending_ops, self.table.pending_ops = self.table.pending_ops, []
        for half_offset in pending_ops:
            self.write_op(half_offset)

    def _settled(self, half_offset: QueueOffset, committed: WriteResult, done: OnWritten) -> None:
        """Whatever becomes of the op message, the message is delivered; the answer waits for the disk if sends do."""

        def written(op: WriteResult) -> None:
            if op.stored:  # behind the message in the log: what holds for it holds for both
                done(op)
            else:
                end = committed.appended[0].end
                self._writer.when_durable(end, lambda code: done(WriteResult(code, None, committed.appended)))

        self.write_op(half_offset, written)

    def _passed(self, half_offset: QueueOffset, passed_by: bool) -> None:
        if passed_by:
            self.write_op(half_offset)
