"""Far more sends than may be in flight, given to one `asyncio.gather`: all are stored, in bounded time and memory.

`send_all` runs in a process of its own, so that what is measured is a producer and nothing else.
"""

import asyncio
import os
import subprocess
import sys
import time
from typing import Final

import msgspec

from rocketeer import Message, aio
from rocketeer.bench.clients.job import QUEUES
from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerFailed, anonymous_bytes
from rocketeer.bench.servers import ServerCluster

SEND_BYTES_MAX: Final = 4_000
"""For each send that waits: its task, its coroutines, its message and its place in the line."""
SEND_CPU_US_MAX: Final = 200
"""Far more than it takes; a search through those who wait took milliseconds."""
LOOK_S: Final = 0.05
TIMEOUT_S: Final = 600.0


class FanOut(msgspec.Struct, frozen=True):
    """Figures of the sender's process."""

    messages: int
    stored: int
    """Different places in queues that the results named."""
    seconds: float
    cpu_s: float
    before_bytes: int
    most_bytes: int
    """Its own memory before the sends, and the most while they were under way."""

    @property
    def send_bytes(self) -> float:
        return (self.most_bytes - self.before_bytes) / self.messages

    @property
    def cpu_us(self) -> float:
        return self.cpu_s * 1e6 / self.messages

    def faults(self) -> list[str]:
        """What is not as it should be."""
        found = []
        if self.stored != self.messages:
            found.append(f"{self.stored:,} of {self.messages:,} were stored once")
        if self.send_bytes > SEND_BYTES_MAX:
            found.append(f"{self.send_bytes:,.0f} bytes for each send, allowed {SEND_BYTES_MAX:,}")
        if self.cpu_us > SEND_CPU_US_MAX:
            found.append(f"{self.cpu_us:.0f} us of CPU for each send, allowed {SEND_CPU_US_MAX}")
        return found


def gathered(cluster: ServerCluster, topic: str, count: int, body_bytes: int) -> FanOut:
    """Have a new process send `count` messages at once, with default options."""
    with Control(cluster.broker) as control:
        control.create_topic(topic, queues=QUEUES)
    words = [cluster.namesrv, topic, str(count), str(body_bytes)]
    done = subprocess.run(
        [sys.executable, "-m", "rocketeer.bench.clients.fan_out", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise ServerFailed(f"the sender ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return msgspec.json.decode(done.stdout, type=FanOut)


async def send_all(namesrv: str, topic: str, count: int, body_bytes: int) -> FanOut:
    """Send all messages: what runs in the sender's process."""
    own = os.getpid()
    most_bytes = 0

    async def watch() -> None:
        nonlocal most_bytes
        while True:
            most_bytes = max(most_bytes, anonymous_bytes(own))
            await asyncio.sleep(LOOK_S)

    body = b"x" * body_bytes
    async with aio.Producer("bench_fan_out", nameserver=namesrv) as producer:
        await producer.send(Message(topic, body))
        before_bytes = anonymous_bytes(own)
        watching = asyncio.create_task(watch())
        cpu_s, began_s = time.process_time(), time.monotonic()
        results = await asyncio.gather(
            *(producer.send(Message(topic, body, keys=f"k{number}")) for number in range(count))
        )
        seconds, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
        most_bytes = max(most_bytes, anonymous_bytes(own))
        watching.cancel()
    stored = len({(result.queue, result.queue_offset) for result in results if result.ok})
    return FanOut(count, stored, seconds, cpu_s, before_bytes, most_bytes)


if __name__ == "__main__":
    nameserver, used_topic = sys.argv[1:3]
    found = asyncio.run(send_all(nameserver, used_topic, int(sys.argv[3]), int(sys.argv[4])))
    print(msgspec.json.encode(found).decode())
