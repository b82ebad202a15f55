"""Each payment is booked exactly once: the sum and the offset are in one transaction of the program's own database.

No crash can come between the two, and the broker's offsets are not asked. Given a path, the file is kept there.

Prints: 100 payments, 4950 in all
"""

import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Mapping

from rocketeer import ConsumeFromWhere, Message, MessageQueue, Producer, PushConsumer, ReceivedMessage

nameserver = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
path = sys.argv[1] if len(sys.argv) > 1 else tempfile.mktemp(suffix=".db")
database = sqlite3.connect(path, check_same_thread=False)
database.execute("CREATE TABLE IF NOT EXISTS payments (id TEXT, amount INTEGER)")
database.execute("CREATE TABLE IF NOT EXISTS offsets (queue TEXT PRIMARY KEY, next INTEGER)")
turn = threading.Lock()


class InTheDatabase:
    """Where the consumer begins. It has nothing to store: `book` does, with what it books."""

    def load(self, queue: MessageQueue) -> int | None:
        with turn:
            row = database.execute("SELECT next FROM offsets WHERE queue = ?", (str(queue),)).fetchone()
        return None if row is None else int(row[0])

    def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        pass


consumer = PushConsumer(
    "cashier",
    nameserver=nameserver,
    orderly=True,  # in the order of their queue, so that one number tells what is done
    instance_name="cashier-1",  # the same after a restart, so that the locks of its queues are still its own
    offset_store=InTheDatabase(),
    consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
)


@consumer.subscribe("payments")
def book(message: ReceivedMessage) -> None:
    """Payment and offset, or neither."""
    with turn, database:  # one transaction
        database.execute("INSERT INTO payments VALUES (?, ?)", (message.keys[0], int(message.text)))
        if os.environ.get("CRASH_AT") == message.keys[0]:
            os._exit(1)  # between the effect and its commit
        place = (str(message.queue), message.queue_offset + 1)
        database.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?)", place)


def booked() -> tuple[int, int]:
    with turn:
        count, total = database.execute("SELECT COUNT(*), SUM(amount) FROM payments").fetchone()
    return count, total


if not os.environ.get("SENT"):
    with Producer("shop", nameserver=nameserver) as producer:
        for number in range(100):
            producer.send(Message("payments", str(number).encode(), keys=f"p{number}"))
with consumer:
    give_up_s = time.monotonic() + 60
    while booked()[0] < 100 and time.monotonic() < give_up_s:
        time.sleep(0.05)
print("{} payments, {} in all".format(*booked()))
