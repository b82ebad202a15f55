"""The same on asyncio: many sends at a time, and a coroutine as listener.

Prints: consumed 100 events
"""

import asyncio
import os

from rocketeer.aio import Message, Producer, PushConsumer, ReceivedMessage

nameserver = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    left = 100
    finished = asyncio.Event()
    consumer = PushConsumer("event-readers", nameserver=nameserver)

    @consumer.subscribe("events")
    async def read(message: ReceivedMessage) -> None:
        nonlocal left
        await asyncio.sleep(0)  # a database, a web service ...
        left -= 1
        if left == 0:
            finished.set()

    async with Producer("event-writers", nameserver=nameserver) as producer:
        await asyncio.gather(
            *(producer.send(Message("events", b"event %d" % number)) for number in range(100))
        )
    async with consumer:
        await asyncio.wait_for(finished.wait(), 30)
    print(f"consumed {100 - left} events")


asyncio.run(main())
