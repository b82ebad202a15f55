"""Reading queues like files: any offset, nothing committed, nobody disturbed.

Prints: 12 lines in 4 queues
"""

import os

from rocketeer import Message, Producer, PullConsumer

nameserver = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

with Producer("writers", nameserver=nameserver) as producer:
    producer.create_topic("lines", queues=4)
    for number in range(12):
        producer.send(Message("lines", f"line {number}".encode()))

lines = []
with PullConsumer("auditors", nameserver=nameserver) as consumer:
    queues = consumer.queues("lines")
    for queue in queues:
        print(queue, "offsets", consumer.min_offset(queue), "to", consumer.max_offset(queue))
        lines += [message.text for message in consumer.read(queue)]
print(f"{len(lines)} lines in {len(queues)} queues")
