"""A million messages through one consumer, its memory looked at on the way: it may not grow with what it has seen.

`consume` runs in a process of its own, so that what is measured is a consumer and nothing else.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from rocketeer import PushConsumer, ReceivedMessage
from rocketeer.bench.clients.job import QUEUES
from rocketeer.bench.clients.rows import store_messages
from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerFailed, anonymous_bytes
from rocketeer.bench.servers import ServerCluster
from rocketeer.model.subscription import ConsumeFromWhere

GROWTH_BYTES_MAX: Final = 16_000_000
"""What buffers of pulled messages may differ by from moment to moment."""
SAMPLES: Final = 40
WARM: Final = SAMPLES // 10
"""Samples before which memory is still being taken into use."""
TIMEOUT_S: Final = 600.0


class Sample(msgspec.Struct, frozen=True):
    """The consumer's own memory after so many messages."""

    messages: int
    seconds: float
    anonymous_bytes: int


def growth_bytes(samples: list[Sample]) -> int:
    """How much more it ever took than when it had warmed up."""
    warm = samples[WARM - 1 :]
    return max(sample.anonymous_bytes for sample in warm) - warm[0].anonymous_bytes


def stored_and_consumed(
    cluster: ServerCluster,
    topic: str,
    count: int,
    body_bytes: int,
    say: Callable[[str], None] = lambda text: None,
) -> list[Sample]:
    """Store `count` messages with our producer, have a new process consume them; one sample every 1/40."""
    with Control(cluster.broker) as control:
        control.create_topic(topic, queues=QUEUES)
    say(f"storing {count:,} messages of {body_bytes} bytes")
    store_messages(cluster.namesrv, topic, count, body_bytes)
    say("consuming them; anonymous memory of the consumer's process:")
    samples = []
    for sample in _samples(cluster.namesrv, topic, count):
        samples.append(sample)
        say(
            f"  {sample.messages:>10,} messages  {sample.seconds:7.1f} s  {sample.anonymous_bytes / 1e6:7.1f} MB"
        )
    if len(samples) != SAMPLES:
        raise ServerFailed(f"the consumer ended after {len(samples)} of {SAMPLES} samples")
    return samples


def _samples(namesrv: str, topic: str, count: int) -> Iterator[Sample]:
    command = [sys.executable, "-m", "rocketeer.bench.clients.memory", namesrv, topic, str(count)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield msgspec.json.decode(line, type=Sample)
        finally:
            if process.poll() is None:
                process.terminate()


def consume(namesrv: str, topic: str, count: int) -> None:
    """The consumer's process: default options, a listener that reads every body; one JSON line a sample."""
    own = os.getpid()
    began_s = time.monotonic()
    step = max(count // SAMPLES, 1)
    over = threading.Event()
    lock = threading.Lock()
    got = 0

    def listener(message: ReceivedMessage) -> None:
        nonlocal got
        assert message.body
        with lock:
            got += 1
            if got % step or over.is_set():
                return
            sample = Sample(got, round(time.monotonic() - began_s, 2), anonymous_bytes(own))
            print(msgspec.json.encode(sample).decode(), flush=True)
            if got == step * SAMPLES:
                over.set()

    consumer = PushConsumer(
        f"bench_memory_{own}", nameserver=namesrv, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe(topic, listener)
    with consumer:
        over.wait(TIMEOUT_S)


if __name__ == "__main__":
    consume(sys.argv[1], sys.argv[2], int(sys.argv[3]))
