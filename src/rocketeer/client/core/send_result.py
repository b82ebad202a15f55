"""What a send brings: where the message is, and how safely."""

from enum import StrEnum

import msgspec

from rocketeer.model.queue import MessageQueue


class SendStatus(StrEnum):
    """All four mean that the broker has the message; all but SEND_OK, that it may lose it in an accident."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """The broker's answer. Of a batch, the ids are joined with commas and the offset is the first one's."""

    status: SendStatus
    message_id: str
    """Made here, travels with the message (UNIQ_KEY); consumers see the same."""
    offset_message_id: str
    """Made by the broker: the place in its log, the quickest way to find the message."""
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region: str = "DefaultRegion"
    trace_on: bool = True
    recall_handle: str | None = None
    """Of a timed message: `producer.recall` takes it back with this."""

    @property
    def ok(self) -> bool:
        return self.status is SendStatus.SEND_OK
