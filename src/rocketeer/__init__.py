"""Rocketeer: a RocketMQ-compatible messaging engine in Python.

The clients' names are here, each loaded when it is first asked for: `import rocketeer` alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketeer.admin.blocking import Admin
    from rocketeer.client.app import App
    from rocketeer.client.core.encoding import split_batch
    from rocketeer.client.core.outcome import COMMIT, RETRY, ROLLBACK, Retry
    from rocketeer.client.core.received import ReceivedMessage
    from rocketeer.client.core.selectors import by_hash, by_random
    from rocketeer.client.core.send_result import SendResult, SendStatus
    from rocketeer.client.core.transactions import UNKNOWN, Transaction, TransactionResult, TransactionState
    from rocketeer.client.plans.pull import PullResult, PullStatus
    from rocketeer.client.sync.lite_pull_consumer import LitePullConsumer
    from rocketeer.client.sync.producer import Producer
    from rocketeer.client.sync.pull_consumer import PullConsumer
    from rocketeer.client.sync.push_consumer import PushConsumer
    from rocketeer.client.sync.transaction_producer import TransactionProducer
    from rocketeer.model.message import Message
    from rocketeer.model.queue import MessageQueue
    from rocketeer.model.subscription import ConsumeFromWhere, MessageModel

__version__ = "0.1.0"

_WHERE = {
    "Admin": "rocketeer.admin.blocking",
    "App": "rocketeer.client.app",
    "COMMIT": "rocketeer.client.core.outcome",
    "ConsumeFromWhere": "rocketeer.model.subscription",
    "LitePullConsumer": "rocketeer.client.sync.lite_pull_consumer",
    "Message": "rocketeer.model.message",
    "MessageModel": "rocketeer.model.subscription",
    "MessageQueue": "rocketeer.model.queue",
    "Producer": "rocketeer.client.sync.producer",
    "PullConsumer": "rocketeer.client.sync.pull_consumer",
    "PullResult": "rocketeer.client.plans.pull",
    "PullStatus": "rocketeer.client.plans.pull",
    "PushConsumer": "rocketeer.client.sync.push_consumer",
    "RETRY": "rocketeer.client.core.outcome",
    "ROLLBACK": "rocketeer.client.core.outcome",
    "ReceivedMessage": "rocketeer.client.core.received",
    "Retry": "rocketeer.client.core.outcome",
    "SendResult": "rocketeer.client.core.send_result",
    "SendStatus": "rocketeer.client.core.send_result",
    "Transaction": "rocketeer.client.core.transactions",
    "TransactionProducer": "rocketeer.client.sync.transaction_producer",
    "TransactionResult": "rocketeer.client.core.transactions",
    "TransactionState": "rocketeer.client.core.transactions",
    "UNKNOWN": "rocketeer.client.core.transactions",
    "by_hash": "rocketeer.client.core.selectors",
    "by_random": "rocketeer.client.core.selectors",
    "split_batch": "rocketeer.client.core.encoding",
}

__all__ = [
    "COMMIT",
    "RETRY",
    "ROLLBACK",
    "UNKNOWN",
    "Admin",
    "App",
    "ConsumeFromWhere",
    "LitePullConsumer",
    "Message",
    "MessageModel",
    "MessageQueue",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "ReceivedMessage",
    "Retry",
    "SendResult",
    "SendStatus",
    "Transaction",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
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
