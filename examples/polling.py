"""Messages when you want them: a loop over a consumer, and back to the beginning.

Prints: 20 readings, then 20 again
"""

import os

from rocketeer import LitePullConsumer, Message, Producer

nameserver = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

with Producer("sensors", nameserver=nameserver) as producer:
    producer.send([Message("readings", str(number).encode()) for number in range(20)])  # a list is a batch

consumer = LitePullConsumer("statistics", nameserver=nameserver)
consumer.subscribe("readings")
with consumer:
    first = []
    for message in consumer:  # a message counts as consumed when the loop asks for the next one
        first.append(int(message.text))
        if len(first) == 20:
            break
    for queue in consumer.assignment:
        consumer.seek_to_begin(queue)
    again: list[int] = []
    while len(again) < 20:
        again += [int(message.text) for message in consumer.poll(timeout_s=5)]
print(f"{len(first)} readings, then {len(again)} again")
