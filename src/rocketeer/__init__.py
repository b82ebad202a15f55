"""Rocketeer: a RocketMQ-compatible messaging engine in Python.

The clients' names are here, each loaded when it is first asked for: `import rocketeer` alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketeer.client.core.encoding import split_batch
    from rocketeer.client.core.selectors import by_hash, by_random
    from rocketeer.client.core.send_result import SendResult, SendStatus
    from rocketeer.client.sync.producer import Producer
    from rocketeer.model.message import Message
    from rocketeer.model.queue import MessageQueue

__version__ = "0.1.0"

_WHERE = {
    "Message": "rocketeer.model.message",
    "MessageQueue": "rocketeer.model.queue",
    "Producer": "rocketeer.client.sync.producer",
    "SendResult": "rocketeer.client.core.send_result",
    "SendStatus": "rocketeer.client.core.send_result",
    "by_hash": "rocketeer.client.core.selectors",
    "by_random": "rocketeer.client.core.selectors",
    "split_batch": "rocketeer.client.core.encoding",
}

__all__ = [
    "Message",
    "MessageQueue",
    "Producer",
    "SendResult",
    "SendStatus",
    "by_hash",
    "by_random",
    "split_batch",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'rocketeer' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
