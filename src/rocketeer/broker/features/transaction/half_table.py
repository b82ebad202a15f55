"""Which half messages are pending: known from the half and the op queue, and after a crash from the log itself.

What RocketMQ knows is enough: a half at or behind the half queue's progress is pending unless an op message names it.
A commit, however, is two appends: the message for the consumers, then the op message. A process that dies in between
leaves the first alone; it carries the half's place (prepared offset), so the walk over the log at start finds it, and
the op message is written late. In the same way it finds copies of halves and halves given up.
"""

import json
import logging
from collections.abc import Iterator
from typing import Final

from rocketeer.broker.features.transaction.messages import QUEUE_ID, identity, settled_offsets
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.errors import BadBody
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.topic import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import TX_COMMIT, tx_state
from rocketeer.record.layout import StoredMessage
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The consumer group under whose name RocketMQ keeps the progress of both queues."""
AT_ONCE: Final = 512
SAVE_BYTES: Final = 64 << 20
"""With pending halves the table is saved after so much of the log at the latest: a start walks over no more."""


class HalfTable:
    """Pending halves by their place in the log, in the order of their queue. Belongs to the loop thread.

    `pending_ops` are queue offsets of settled halves whose op message is not written yet.
    """

    file_name = "transactionProgress.json"

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._offsets = offsets
        self.pending: dict[LogOffset, QueueOffset] = {}
        """Log offset to queue offset."""
        self.pending_bytes = 0
        """What they take in the log."""
        self._sizes: dict[LogOffset, int] = {}
        self.pending_ops: list[QueueOffset] = []
        self.op_offset = QueueOffset(0)
        self._copies: dict[int, LogOffset] = {}
        """Identity to log offset, of halves that were appended anew."""
        self._ahead: dict[LogOffset, QueueOffset | None] = {}
        """Copies that the half queue does not show yet (in a group: not confirmed), by log offset; None: settled."""
        self.read_to = QueueOffset(0)
        """The end of the half queue as far as it is known here."""
        self._saved = (LogOffset(0), QueueOffset(0), QueueOffset(0))
        """Log offset, half and op queue offset of the file."""
        self._written: tuple[LogOffset, QueueOffset, QueueOffset] | None = None

    # --- while the broker runs ---------------------------------------------------------------

    def catch_up(self) -> None:
        """Learn of the halves stored since the last call."""
        for offset, log_offset, size in self._halves(self.read_to):
            if self._ahead.pop(log_offset, offset) is not None:
                self._wait_for(log_offset, offset, size)
            self.read_to = QueueOffset(offset + 1)

    def _wait_for(self, log_offset: LogOffset, offset: QueueOffset, size: int) -> None:
        self.pending[log_offset] = offset
        self._sizes[log_offset] = size
        self.pending_bytes += size

    def _pop(self, log_offset: LogOffset) -> QueueOffset:
        self.pending_bytes -= self._sizes.pop(log_offset)
        return self.pending.pop(log_offset)

    def find(self, half: StoredMessage) -> LogOffset | None:
        """The log offset of the pending half that this is, or was before it was appended anew; None: settled."""
        if half.log_offset in self.pending:
            return half.log_offset
        return self._copies.get(identity(half)) if self._copies else None

    def settle(self, log_offset: LogOffset, half: StoredMessage) -> QueueOffset:
        """Remove a half message that is pending no longer; returns its queue offset."""
        if self._copies:
            self._copies.pop(identity(half), None)
        ahead = self._ahead.get(log_offset)
        if ahead is None:
            return self._pop(log_offset)
        self._ahead[log_offset] = None
        return ahead

    def replace(self, half: StoredMessage, copy: DispatchEntry) -> QueueOffset:
        """Let a pending half message go on as its appended copy; returns the queue offset of the original."""
        self.catch_up()
        self.note_copy(half, copy)
        return self._pop(half.log_offset)

    def note_copy(self, half: StoredMessage, copy: DispatchEntry) -> None:
        """Remember the newest copy of a half message, for whoever ends or asks for it later."""
        self._copies[identity(half)] = copy.log_offset
        if copy.queue_offset >= self.read_to:
            self._ahead[copy.log_offset] = copy.queue_offset

    def forget(self, log_offset: LogOffset) -> None:
        """Remove a half message whose record the log no longer has."""
        if log_offset in self.pending:
            self._pop(log_offset)

    @property
    def half_offset(self) -> QueueOffset:
        """The half queue's progress: all before it are settled."""
        return next(iter(self.pending.values()), self.read_to)

    @property
    def ended_behind(self) -> int:
        """Number of halves from `half_offset` on that have ended; the next start reads these for nothing."""
        return self.read_to - self.half_offset - len(self.pending)

    def advance_ops(self) -> bool:
        """Move the op queue's progress over halves before the half queue's; True: there may be more."""
        half_offset, moved = self.half_offset, 0
        for offset, targets in self._ops(self.op_offset, AT_ONCE):
            if any(target >= half_offset for target in targets):
                return False
            self.op_offset = QueueOffset(offset + 1)
            moved += 1
        return moved == AT_ONCE

    def commit_progress(self) -> None:
        """Put both queues' progress where RocketMQ keeps it."""
        for topic, offset in ((TRANS_HALF_TOPIC, self.half_offset), (TRANS_OP_HALF_TOPIC, self.op_offset)):
            if self._offsets.query(GROUP, topic, QUEUE_ID) != offset:
                self._offsets.commit(GROUP, topic, QUEUE_ID, offset, internal=True)

    # --- at start ----------------------------------------------------------------------------

    def load(self) -> LogOffset:
        """Read both queues; from the log offset returned on, the log may know more (see `on_message`)."""
        end = self._store.max_log_offset
        saved_log, saved_half, saved_op = self._saved
        start = self._start(TRANS_HALF_TOPIC, saved_half)
        self.op_offset = self._start(TRANS_OP_HALF_TOPIC, saved_op)
        if saved_log > end:
            log.warning("the log ends before what was known of transactions: all is read log_end=%d", end)
            start = self._store.min_queue_offset(TRANS_HALF_TOPIC, QUEUE_ID)
            self.op_offset = self._store.min_queue_offset(TRANS_OP_HALF_TOPIC, QUEUE_ID)
            saved_log = LogOffset(0)
        self._read_pending(start)
        if not self.pending:
            return end
        log.info("half messages pending count=%d from=%d", len(self.pending), self.half_offset)
        return saved_log or next(iter(self.pending))

    def _read_pending(self, start: QueueOffset) -> None:
        self.read_to = start
        self.pending, self._copies, self._ahead, self.pending_ops = {}, {}, {}, []
        self._sizes, self.pending_bytes = {}, 0
        ended = {target for _, targets in self._ops(self.op_offset) for target in targets if target >= start}
        for offset, log_offset, size in self._halves(start):
            self.read_to = QueueOffset(offset + 1)
            if offset in ended and not self.pending:
                continue
            half = self._store.message_at(log_offset)
            if half is None:
                continue
            name = identity(half)
            before = self._copies.pop(name, None)
            if before is not None:  # appended anew later; progress had not been saved when the process died
                self.pending_ops.append(self._pop(before))
            if offset not in ended:
                self._copies[name] = log_offset
                self._wait_for(log_offset, offset, size)

    def on_message(self, entry: DispatchEntry) -> None:
        """A message of the log behind what the file stands for."""
        if not self.pending:
            return
        if tx_state(entry.sys_flag) == TX_COMMIT:
            half = self._store.message_at(LogOffset(entry.prepared_offset))
            # Retries of a committed message have the flag, but 0 for the place: so the ids must agree.
            if half is None or half.topic != TRANS_HALF_TOPIC or half.uniq_key != entry.uniq_key:
                return
        elif entry.topic == TRANS_CHECK_MAX_TIME_TOPIC:
            half = self._store.message_at(entry.log_offset)
        else:
            return
        log_offset = None if half is None else self.find(half)
        if half is not None and log_offset is not None and log_offset < entry.log_offset:
            self.pending_ops.append(self.settle(log_offset, half))

    # --- the file ----------------------------------------------------------------------------

    def encode(self) -> str:
        """With op messages pending the file stays behind: the next start has to find them again."""
        if not self.pending_ops:
            self._saved = (self._store.max_log_offset, self.half_offset, self.op_offset)
        self._written = self._saved
        log_offset, half, op = self._saved
        return json.dumps({"logOffset": log_offset, "halfOffset": half, "opOffset": op})

    def decode(self, text: str) -> None:
        try:
            table = json.loads(text)
            numbers = table["logOffset"], table["halfOffset"], table["opOffset"]
        except (ValueError, TypeError, KeyError) as error:
            raise BadBody(f"{error!r}") from None
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise BadBody(f"offsets are numbers from 0 on, not {numbers}")
        self._saved = self._written = numbers

    def take_dirty(self) -> bool:
        if self._written is None:
            return bool(self.read_to)
        log_offset, half, op = self._written
        if (half, op) != (self.half_offset, self.op_offset):
            return not self.pending_ops
        return bool(self.pending) and self._store.max_log_offset - log_offset > SAVE_BYTES

    # --- reading the queues ------------------------------------------------------------------

    def _start(self, topic: str, saved: QueueOffset) -> QueueOffset:
        known = max(saved, QueueOffset(self._offsets.query(GROUP, topic, QUEUE_ID) or 0))
        low = self._store.min_queue_offset(topic, QUEUE_ID)
        return min(max(known, low), self._store.max_queue_offset(topic, QUEUE_ID))

    def _halves(self, start: QueueOffset) -> Iterator[tuple[QueueOffset, LogOffset, int]]:
        """(queue offset, log offset, size) of the half queue's entries."""
        while batch := self._store.entries(TRANS_HALF_TOPIC, QUEUE_ID, start, AT_ONCE):
            for log_offset, size, _ in batch:
                if log_offset >= 0:  # a place whose message was lost has none
                    yield start, log_offset, size
                start = QueueOffset(start + 1)

    def _ops(
        self, start: QueueOffset, max_count: int | None = None
    ) -> Iterator[tuple[QueueOffset, list[QueueOffset]]]:
        """(queue offset, half queue offsets) of the op queue's entries."""
        left = max_count
        while batch := self._store.entries(
            TRANS_OP_HALF_TOPIC, QUEUE_ID, start, min(left or AT_ONCE, AT_ONCE)
        ):
            for log_offset, _, _ in batch:
                op = self._store.message_at(log_offset)
                yield start, [] if op is None else settled_offsets(op.body)
                start = QueueOffset(start + 1)
            if left is not None:
                left -= len(batch)
                if left <= 0:
                    return
