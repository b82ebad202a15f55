"""Every member gets every message: two caches that must forget the same keys.

Prints: forgot 5 and 5
"""

import asyncio
import os
import tempfile
from pathlib import Path

from rocketeer.aio import ConsumeFromWhere, Message, MessageModel, Producer, PushConsumer

nameserver = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    caches: list[list[str]] = [[], []]
    with tempfile.TemporaryDirectory() as folder:
        members = [
            PushConsumer(
                "caches",
                nameserver=nameserver,
                message_model=MessageModel.BROADCASTING,
                # A member without offsets of its own begins at the end, unless told otherwise.
                consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                instance_name=f"cache-{number}",
                offset_folder=Path(folder),  # ~/.rocketmq_offsets if not given: where Java keeps them too
            )
            for number in range(2)
        ]
        for member, cache in zip(members, caches, strict=True):
            member.subscribe("forget", lambda message, cache=cache: cache.append(message.text))
            await member.start()
        async with Producer("writers", nameserver=nameserver) as producer:
            for number in range(5):
                await producer.send(Message("forget", f"key {number}".encode()))
        for _ in range(600):
            if all(len(cache) == 5 for cache in caches):
                break
            await asyncio.sleep(0.05)
        for member in members:
            await member.close()
    print(f"forgot {len(caches[0])} and {len(caches[1])}")


asyncio.run(main())
