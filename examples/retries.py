"""A message that fails comes again after a while, a hopeless one goes to the dead letters.

Prints: mail sent at try 2; given up: 1
"""

import os
import threading

from rocketeer import Message, Producer, PushConsumer, ReceivedMessage, Retry

nameserver = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
sent_at: list[int] = []
given_up: list[str] = []
finished = threading.Event()

with Producer("mailers", nameserver=nameserver) as producer:
    for to in ("ada@example.org", "not an address"):
        producer.send(Message("mails", to.encode()))

consumer = PushConsumer("mail-out", nameserver=nameserver, retries=5)


@consumer.subscribe("mails")
def mail(message: ReceivedMessage) -> Retry | None:
    if "@" not in message.text:
        given_up.append(message.text)
        return Retry(delay_level=-1)  # no further try: to %DLQ%mail-out
    if message.reconsume_times == 0:
        return Retry(delay_level=1)  # level 1 is a second; without it the broker waits longer with every try
    sent_at.append(message.reconsume_times + 1)
    finished.set()
    return None


with consumer:
    finished.wait(60)
print(f"mail sent at try {sent_at[0]}; given up: {len(given_up)}")
