"""What is derived from a stored message starts from this value; made by append, or from log bytes by `entry_at`."""

from typing import NamedTuple

from rocketeer.model.offsets import LogOffset, QueueOffset


class DispatchEntry(NamedTuple):
    """One stored message, as consume queues, index and features see it."""

    log_offset: LogOffset
    size: int
    topic: str
    queue_id: int
    queue_offset: QueueOffset
    tag_code: int  # the tag's hash, 0 without one; in the schedule and timer topics the ms it is due
    store_ms: int
    keys: str  # KEYS as stored: keys separated by spaces; "" without
    uniq_key: str | None
    sys_flag: int
    prepared_offset: int
    properties: bytes = b""  # as stored

    @property
    def end(self) -> LogOffset:
        """The log offset behind the record."""
        return LogOffset(self.log_offset + self.size)
