"""The clients for asyncio: the names of `rocketeer`, with `async with` and `await`.

from rocketeer.aio import Message, Producer

async with Producer("shop", nameserver="127.0.0.1:9876") as producer:
    print(await producer.send(Message("orders", b"...", tags="created", keys="42")))
"""

from rocketeer.admin.awaited import Admin
from rocketeer.client.aio.lite_pull_consumer import LitePullConsumer
from rocketeer.client.aio.producer import Producer
from rocketeer.client.aio.pull_consumer import PullConsumer
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.aio.transaction_producer import TransactionProducer
from rocketeer.client.core.encoding import split_batch
from rocketeer.client.core.outcome import COMMIT, RETRY, ROLLBACK, Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.selectors import by_hash, by_random
from rocketeer.client.core.send_result import SendResult, SendStatus
from rocketeer.client.core.transactions import UNKNOWN, Transaction, TransactionResult, TransactionState
from rocketeer.client.plans.pull import PullResult, PullStatus
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import ConsumeFromWhere, MessageModel

__all__ = [
    "COMMIT",
    "RETRY",
    "ROLLBACK",
    "UNKNOWN",
    "Admin",
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
