"""The process that dies in the crash tests: appends as fast as it can, and says what was acknowledged.

    python store_writer.py FOLDER SYNC_FLUSH|ASYNC_FLUSH LIFE

On standard output: "opening", "open", then a line for every acknowledged message:
life, number, topic, queue id, queue offset, log offset.
"""

import os
import queue
import random
import sys
from collections.abc import Callable
from pathlib import Path

from rocketeer.clock import SystemClock
from rocketeer.config import FlushMode, StoreConfig
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage
from rocketeer.steps import finish
from rocketeer.store.message_store import MessageStore

HOST = encode_host("127.0.0.1", 1000)
TOPICS = ("Alpha", "Beta")


def config(folder: Path, mode: str) -> StoreConfig:
    """Small files and frequent checkpoints: all that can be interrupted happens all the time."""
    return StoreConfig(
        store_path=folder,
        flush_mode=FlushMode(mode),
        segment_bytes=256 * 1024,
        consume_queue_bytes=300 * 20,
        index_slots=500,
        index_entries=2000,
        flush_interval_ms=20,
        flush_queue_interval_ms=1,
        flush_queue_thorough_ms=50,
        disk_warning_percent=100,
        disk_clean_percent=100,
    )


def body_of(life: int, number: int) -> bytes:
    """What a message says of itself; its length and filling follow from its number."""
    size = random.Random(life * 1_000_003 + number).choice((0, 1, 100, 900, 4000))
    return b"%d:%d:" % (life, number) + b"%d" % (number % 10) * size


def pending(life: int, number: int) -> PendingMessage:
    topic, queue_id = TOPICS[number % 2], number % 3
    properties = f"TAGS\x01tag{number % 5}\x02UNIQ_KEY\x01ID-{life}-{number}".encode()
    return PendingMessage(topic, queue_id, 0, 0, 1, HOST, body_of(life, number), properties)


def main(folder: Path, mode: str, life: int) -> None:
    posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    store = MessageStore(config(folder, mode), clock=SystemClock(), store_host=HOST, post=posted.put)
    os.write(1, b"opening\n")
    store.open()
    os.write(1, b"open\n")
    acknowledged: list[bytes] = []

    def acknowledge(number: int, message: PendingMessage, where: DispatchEntry) -> None:
        acknowledged.append(
            b"%d %d %s %d %d %d\n"
            % (life, number, message.topic.encode(), message.queue_id, where.queue_offset, where.log_offset)
        )

    number = 0
    while True:
        for _ in range(random.randrange(1, 40)):
            batch = [pending(life, number + at) for at in range(random.choice((1, 1, 1, 5)))]
            stored = (
                store.append_prepared(finish(store.preparing(batch)))
                if len(batch) > 1
                else [store.append(batch[0])]
            )
            for message, where in zip(batch, stored, strict=True):
                if mode == FlushMode.SYNC_FLUSH:
                    _when_durable(store, where, acknowledge, number, message)
                else:
                    acknowledge(number, message, where)
                number += 1
        store.tick()
        while not posted.empty():
            posted.get()()
        if acknowledged:
            os.write(1, b"".join(acknowledged))
            acknowledged.clear()


def _when_durable(
    store: MessageStore,
    where: DispatchEntry,
    acknowledge: Callable[[int, PendingMessage, DispatchEntry], None],
    number: int,
    message: PendingMessage,
) -> None:
    def durable(in_time: bool) -> None:
        if in_time:
            acknowledge(number, message, where)

    store.when_durable(where.end, durable)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
