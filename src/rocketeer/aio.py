"""The clients for asyncio: the names of `rocketeer`, with `async with` and `await`.

from rocketeer.aio import Message, Producer

async with Producer("shop", nameserver="127.0.0.1:9876") as producer:
    print(await producer.send(Message("orders", b"...", tags="created", keys="42")))
"""

from rocketeer.client.aio.producer import Producer
from rocketeer.client.core.encoding import split_batch
from rocketeer.client.core.selectors import by_hash, by_random
from rocketeer.client.core.send_result import SendResult, SendStatus
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue

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
