"""Events of one account in order: the sender chooses the queue by the account, the consumer reads it in order.

Prints: each account in order: True
"""

import os
import threading
from collections import defaultdict

from rocketeer import Message, Producer, PushConsumer, ReceivedMessage, by_hash

nameserver = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
seen: dict[str, list[int]] = defaultdict(list)
finished = threading.Event()

with Producer("bank", nameserver=nameserver) as producer:
    for step in range(5):
        for account in ("ada", "bob", "eve"):
            message = Message("transfers", str(step).encode(), keys=account, sharding_key=account)
            producer.send(message, selector=by_hash)

consumer = PushConsumer("ledger", nameserver=nameserver, orderly=True, suspend_s=0.05)


@consumer.subscribe("transfers")
def book(message: ReceivedMessage) -> None:
    """One at a time per queue. Should it raise, the queue waits and the same message comes again."""
    if message.text == "2" and message.reconsume_times == 0:
        raise ConnectionError("the database is away for a moment")
    seen[message.keys[0]].append(int(message.text))
    if sum(map(len, seen.values())) == 15:
        finished.set()


with consumer:
    finished.wait(30)
print(f"each account in order: {all(steps == [0, 1, 2, 3, 4] for steps in seen.values())}")
