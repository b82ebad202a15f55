"""The clients for asyncio: the names of `rocketeer` but App and LogHandler, with `async with` and `await`.

from rocketeer.aio import Message, Producer

async with Producer("shop", nameserver="127.0.0.1:9876") as producer:
    print(await producer.send(Message("orders", b"...", tags="created", keys="42")))
"""

from rocketeer.admin.aio import Admin
from rocketeer.client import api as _shared
from rocketeer.client.aio.lite_pull_consumer import LitePullConsumer
from rocketeer.client.aio.producer import Producer
from rocketeer.client.aio.pull_consumer import PullConsumer
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.aio.transaction_producer import TransactionProducer
from rocketeer.client.api import *  # noqa: F403 its names are listed there

__all__ = ["Admin", "LitePullConsumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]
__all__ += _shared.__all__
