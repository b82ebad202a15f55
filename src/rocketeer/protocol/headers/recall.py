"""Headers of taking a timed message back (370), from RocketMQ 5."""

from rocketeer.protocol.headers.base import Header


class RecallMessageHeader(Header):
    """370 RECALL_MESSAGE."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallMessageReplyHeader(Header):
    """The reply to 370: the id of the message that will not be delivered."""

    msg_id: str
