"""Send ten orders and consume them.

Run it while `rocketeer up` runs in another terminal. Prints: billed 10 orders
"""

import os
import threading

from rocketeer import Message, Producer, PushConsumer, ReceivedMessage

nameserver = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
billed: list[str] = []
finished = threading.Event()

consumer = PushConsumer("billing", nameserver=nameserver)


@consumer.subscribe("orders", tags="created || paid")
def bill(message: ReceivedMessage) -> None:
    """Returning is success; raising, or returning RETRY, has the message come again later."""
    billed.append(message.text)
    if len(billed) == 10:
        finished.set()


with Producer("shop", nameserver=nameserver) as producer:
    for number in range(10):
        result = producer.send(
            Message("orders", f"order {number}".encode(), tags="created", keys=str(number))
        )
        print(result.status, result.message_id)

# A service would call consumer.run(), which ends with Ctrl-C.
with consumer:
    finished.wait(30)
print(f"billed {len(billed)} orders")
