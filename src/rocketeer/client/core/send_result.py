"""What a send brings: where the message is, and how safely."""

from enum import StrEnum

import msgspec

from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue


class SendStatus(StrEnum):
    """All four mean that the broker has the message; all but SEND_OK, that it may lose it in an accident."""

    SEND_OK = "SEND_OK"
    """Stored, and as safe as the broker is configured to make it."""
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored in memory; the disk took too long."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Stored by the master; its slave took too long."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """Stored by the master; it has no slave that keeps up."""


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """The broker's answer. Of a batch, the ids are joined with commas and the offset is the first one's."""

    status: SendStatus
    """How safe the message is."""
    message_id: str
    """Made here, travels with the message (UNIQ_KEY); consumers see the same."""
    offset_message_id: str
    """Made by the broker: the place in its log, the quickest way to find the message."""
    queue: MessageQueue
    """The queue it went to."""
    queue_offset: QueueOffset
    """Its place in the queue."""
    transaction_id: str | None = None
    """The id of a half message; its check will have the same."""
    region: str = "DefaultRegion"
    """The broker's region."""
    trace_on: bool = True
    """Whether the broker wants it traced."""
    recall_handle: str | None = None
    """Handle of a timed message: `producer.recall` takes the message back with it."""

    @property
    def ok(self) -> bool:
        """Whether `status` is SEND_OK."""
        return self.status is SendStatus.SEND_OK


def split_result(result: SendResult, count: int) -> list[SendResult]:
    """A batch's result as those of its messages: ids are joined with commas, offsets count up from the first."""
    if count == 1:
        return [result]
    ids = result.message_id.split(",")
    places = result.offset_message_id.split(",")
    if len(ids) != count:
        raise ValueError(f"{len(ids)} ids for {count} messages")
    if len(places) != count:
        places = [result.offset_message_id] * count
    return [
        SendResult(
            result.status,
            ids[at],
            places[at],
            result.queue,
            QueueOffset(result.queue_offset + at),
            result.transaction_id,
            result.region,
            result.trace_on,
        )
        for at in range(count)
    ]
