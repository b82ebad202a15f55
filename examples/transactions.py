"""A message that is delivered if, and only if, the order is in the database; the broker asks when it was not told.

Prints: shipped: book, lamp
"""

import os
import sqlite3
import threading

from rocketeer import (
    Message,
    PushConsumer,
    ReceivedMessage,
    Transaction,
    TransactionProducer,
    TransactionState,
)

nameserver = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
lock = threading.Lock()
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE orders (transaction_id TEXT PRIMARY KEY, item TEXT)")


def save_order(transaction: Transaction) -> TransactionState:
    item = transaction.message.body.decode()
    if item == "broken cup":
        return TransactionState.ROLLBACK  # the message is never delivered
    with lock, database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (transaction.id, item))
    if item == "lamp":
        return TransactionState.UNKNOWN  # as if the answer got lost: the broker will ask
    return TransactionState.COMMIT


def was_it_saved(message: ReceivedMessage) -> TransactionState:
    """May be asked in another process of the group, too: the first one may be gone."""
    with lock:
        found = database.execute(
            "SELECT 1 FROM orders WHERE transaction_id = ?", (message.message_id,)
        ).fetchone()
    return TransactionState.COMMIT if found else TransactionState.ROLLBACK


shipped: list[str] = []
finished = threading.Event()
consumer = PushConsumer("shippers", nameserver=nameserver)


@consumer.subscribe("paid-orders")
def ship(message: ReceivedMessage) -> None:
    shipped.append(message.text)
    if len(shipped) == 2:
        finished.set()


with TransactionProducer("shop", nameserver=nameserver, check=was_it_saved) as producer:
    for item in ("book", "broken cup", "lamp"):
        # immune_s: how long nobody is asked; the broker's own time is 6 s, and it looks every 60 s.
        producer.send_in_transaction(Message("paid-orders", item.encode()), save_order, immune_s=1)
    with consumer:
        finished.wait(180)
print(f"shipped: {', '.join(sorted(shipped))}")
