"""Which topic a request is about that names a place in the log: access rules ask for it."""

from typing import Protocol

from rocketeer.model.offsets import LogOffset
from rocketeer.model.property_names import REAL_TOPIC
from rocketeer.model.topic import TRANS_HALF_TOPIC
from rocketeer.record.layout import StoredMessage


class MessagesByPlace(Protocol):
    """What access rules ask of the store: messages by their place in the log."""

    def named_at(self, log_offset: LogOffset) -> StoredMessage | None: ...


class TopicsInLog:
    """The topic of a message by its place; of a half message, the one it is for."""

    def __init__(self, messages: MessagesByPlace) -> None:
        self._messages = messages

    def topic_at(self, log_offset: LogOffset) -> str | None:
        message = self._messages.named_at(log_offset)
        if message is None:
            return None
        if message.topic == TRANS_HALF_TOPIC:
            return message.properties_dict().get(REAL_TOPIC)
        return message.topic
