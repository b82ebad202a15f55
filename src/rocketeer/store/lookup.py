"""Finding single messages: by log offset, by key, by time. Queries, send-back and admin tools ask here."""

import logging

import msgspec

from rocketeer.errors import BadRecord, LogUnreadable
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record import filler
from rocketeer.record.layout import (
    HEAD,
    MAGIC,
    RECORD_BYTES_MAX,
    RECORD_PLACE,
    StoredMessage,
    decode_record,
    stored_ms,
)
from rocketeer.record.properties import keys_of
from rocketeer.steps import Steps
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.index import Index
from rocketeer.store.read_queue import ReadQueues

log = logging.getLogger(__name__)


class LookupResult(msgspec.Struct):
    """What a query found, oldest first; and up to where the index was filled when it looked."""

    messages: list[StoredMessage]
    index_last_ms: int = 0
    index_last_offset: LogOffset = LogOffset(0)
    is_partial: bool = False
    """The key's hash has more entries than were looked at."""


class Lookup:
    """Finds single messages in the log: by offset, key or time. Belongs to the loop thread."""

    def __init__(
        self, log: CommitLog, queues: ReadQueues, index: Index | None, *, query_count_max: int
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._query_count_max = query_count_max

    def message_at(self, log_offset: LogOffset) -> StoredMessage | None:
        """The message that starts there; None where none does, or a damaged one: stored again it would look whole.

        For places that we noted ourselves; see `named_at` for those that a peer names.
        """
        return self._message_at(log_offset)

    def _message_at(self, log_offset: LogOffset) -> StoredMessage | None:
        try:
            head = self._log.read(log_offset, RECORD_PLACE.size)
            if head is None:
                return None
            size, magic, _, _, place = RECORD_PLACE.unpack(head)
            if magic != MAGIC or place != log_offset or not HEAD.size <= size <= RECORD_BYTES_MAX:
                return None  # before so many bytes are brought into memory
            raw = self._log.read(log_offset, size)
        except LogUnreadable as error:
            log.error("message not found log_offset=%d reason=%s", log_offset, error)
            return None
        if raw is None:
            return None
        try:
            return decode_record(raw, 0, check_crc=True)
        except BadRecord:
            return None

    def named_at(self, log_offset: LogOffset) -> StoredMessage | None:
        """The message that starts there, if its queue leads to it: a message's body may hold what looks like one."""
        message = self.message_at(log_offset)
        return message if message is not None and self.is_queued(message) else None

    def is_queued(self, message: StoredMessage) -> bool:
        """Whether its queue leads to it; no queue leads to what consumers never see."""
        queue = self._queues.get(message.topic, message.queue_id)
        entry = None if queue is None else queue.entry(message.queue_offset)
        return entry is not None and entry.log_offset == message.log_offset

    def is_damaged(self, log_offset: LogOffset) -> bool:
        """Whether a record stands there that is not what was stored, or the filler that took its place."""
        try:
            head = self._log.read(log_offset, RECORD_PLACE.size)
        except LogUnreadable:
            return True
        if head is None or len(head) < RECORD_PLACE.size:
            return False
        _, magic, _, _, place = RECORD_PLACE.unpack_from(head)
        if magic != MAGIC or place != log_offset:
            return False  # other bytes: nothing of this log
        message = self._message_at(log_offset)
        return message is None or message.topic == filler.TOPIC

    def querying(
        self,
        topic: str,
        key: str,
        begin_ms: int,
        end_ms: int,
        max_count: int,
        *,
        entries_max: int | None = None,
        bytes_max: int | None = None,
    ) -> Steps[LookupResult]:
        """The newest messages of a topic with this key or client message id, stored in the time range.

        It ends early when it has looked at `entries_max` entries of the index (`is_partial` says so), and when the
        messages have more than `bytes_max` bytes.
        """
        index = self._index
        if index is None:
            return LookupResult([])
        wanted = min(max_count, self._query_count_max)
        found: dict[LogOffset, StoredMessage] = {}
        size = 0
        entries = index.querying(topic, key, begin_ms, end_ms)
        for looked_at, offset in enumerate(entries if wanted > 0 else (), 1):  # newest first
            if entries_max is not None and looked_at > entries_max:
                return LookupResult([found[at] for at in sorted(found)], *index.last_update, is_partial=True)
            # Hashes collide, so the message itself decides.
            message = None if offset is None or offset in found else self.message_at(offset)
            if message is not None and message.topic == topic and _has_key(message, key):
                size += message.size
                if found and bytes_max is not None and size > bytes_max:
                    break
                found[message.log_offset] = message
                if len(found) == wanted:
                    break
            yield
        return LookupResult([found[offset] for offset in sorted(found)], *index.last_update)

    def offset_by_time(self, topic: str, queue_id: int, store_ms: int) -> QueueOffset:
        """The queue offset of the message stored nearest to a time; 0 for a queue that does not exist."""
        queue = self._queues.get(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.offset_by_time(store_ms, self.store_ms_of)

    def earliest_ms(self, topic: str, queue_id: int) -> int:
        """When the queue's first message was stored; -1 if it has none."""
        queue = self._queues.get(topic, queue_id)
        entry = None if queue is None else queue.entry(queue.min_offset)
        return -1 if entry is None else self.store_ms_of(entry.log_offset, entry.size)

    def store_ms_at(self, topic: str, queue_id: int, offset: QueueOffset) -> int:
        """When the message at a queue offset was stored; -1 if it is not there (any more)."""
        queue = self._queues.get(topic, queue_id)
        entry = None if queue is None else queue.entry(offset)
        return -1 if entry is None else self.store_ms_of(entry.log_offset, entry.size)

    def store_ms_of(self, log_offset: LogOffset, size: int) -> int:
        """When a message was stored; -1 if the log does not have it any more."""
        try:
            raw = self._log.read(log_offset, size)
        except LogUnreadable:
            return -1
        return -1 if raw is None or len(raw) < HEAD.size else stored_ms(raw)


def _has_key(message: StoredMessage, key: str) -> bool:
    return key in keys_of(message.uniq_key, message.keys or "")
