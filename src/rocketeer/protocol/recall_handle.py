"""What a sender of a timed message gets to take it back with: RocketMQ 5's recall handle.

base64, URL-safe, of: v1 SP topic SP broker name SP delivery time in ms SP message id (UNIQ_KEY)
"""

import base64
import binascii
from typing import Final, NamedTuple

from rocketeer.errors import BadRecallHandle

VERSION: Final = "v1"
INVALID: Final = "recall handle is invalid"


class RecallHandle(NamedTuple):
    """Which message, and the broker where it waits."""

    topic: str
    broker_name: str
    deliver_ms: int
    message_id: str

    def encode(self) -> str:
        parts = (VERSION, self.topic, self.broker_name, str(self.deliver_ms), self.message_id)
        return base64.urlsafe_b64encode(" ".join(parts).encode()).decode()

    @classmethod
    def decode(cls, text: str) -> "RecallHandle":
        """Read a handle; raises BadRecallHandle for anything else.

        >>> RecallHandle.decode(RecallHandle("orders", "broker-a", 1700000000000, "7F01").encode()).topic
        'orders'
        """
        try:
            # Java's decoder takes it without the filling at the end, too.
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            version, topic, broker_name, deliver_ms, message_id, *_ = raw.decode().split(" ")
        except (binascii.Error, UnicodeError, ValueError):
            raise BadRecallHandle(INVALID) from None
        whole = deliver_ms.isascii() and deliver_ms.isdigit() and len(deliver_ms) <= 18
        if version != VERSION or not whole:
            raise BadRecallHandle(INVALID)
        return cls(topic, broker_name, int(deliver_ms), message_id)
