"""What `rocketeer bench timers` measures: how punctual timed messages are, and what many of them cost."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketeer.bench.control import Control
from rocketeer.bench.processes import wait_for
from rocketeer.client.plans.send import SendTerms, send_request
from rocketeer.clock import SystemClock
from rocketeer.config import StoreConfig
from rocketeer.errors import RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import encode
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage
from rocketeer.record.properties import encode_properties
from rocketeer.record.timers import wait_until
from rocketeer.remoting.frame_socket import FrameSocket
from rocketeer.steps import finish
from rocketeer.store.message_store import MessageStore

TOPIC = "BenchTimers"
QUEUES = 4
WINDOW = 256
FILL_BATCH = 1_000
DAY_MS = 86_400_000
_ANSWER_S = 60.0


@dataclass(frozen=True)
class Punctuality:
    """By how many milliseconds messages came late: when they were stored in their topic, against when asked for."""

    count: int
    p50_ms: int
    p99_ms: int
    p999_ms: int
    max_ms: int
    early: int

    @classmethod
    def of(cls, late_ms: list[int]) -> "Punctuality":
        late_ms = sorted(late_ms)

        def at(share: float) -> int:
            return late_ms[min(int(len(late_ms) * share), len(late_ms) - 1)]

        early = sum(late < 0 for late in late_ms)
        return cls(len(late_ms), at(0.5), at(0.99), at(0.999), late_ms[-1], early)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def spread(count: int, start_ms: int, seconds: float) -> list[int]:
    """Delivery times, evenly over so many seconds."""
    return [start_ms + int(seconds * 1000 * n / count) for n in range(count)]


def send_timed(address: str, due_ms: Sequence[int], body: bytes) -> None:
    """Send one message for each time, many in flight on one connection; raises for what is refused."""
    frames = _timed_requests(address, due_ms, body)
    in_flight = 0
    done = False
    with contextlib.closing(FrameSocket(address, time.monotonic() + _ANSWER_S)) as connection:
        while not done or in_flight:
            run = []
            while not done and in_flight < WINDOW:
                frame = next(frames, None)
                if frame is None:
                    done = True
                else:
                    run.append(frame)
                    in_flight += 1
            if run:
                connection.send(b"".join(run), time.monotonic() + _ANSWER_S)
            if not in_flight:
                break
            for reply in connection.receive(time.monotonic() + _ANSWER_S):
                in_flight -= 1
                if reply.code != ResponseCode.SUCCESS:
                    raise RocketeerError(f"a timed message was refused: {reply.code} {reply.remark}")


def _timed_requests(address: str, due_ms: Sequence[int], body: bytes) -> Iterator[bytes]:
    terms = SendTerms("bench")
    for number, due in enumerate(due_ms):
        queue = MessageQueue(TOPIC, address, number % QUEUES)
        properties = f"UNIQ_KEY\x01U{due}{number:08d}\x02TIMER_DELIVER_MS\x01{due}"
        yield encode(send_request(terms, queue, body, properties, now_ms()))


def wait_delivered(address: str, count: int, timeout_s: float) -> None:
    """Until the topic has so many messages."""
    with Control(address, timeout_s=_ANSWER_S) as broker:
        if not wait_for(lambda: stored_count(broker) >= count, timeout_s, poll_s=0.2):
            there = stored_count(broker)
            raise RocketeerError(f"{there} of {count} timed messages came within {timeout_s:g} s")


def stored_count(broker: Control) -> int:
    return sum(broker.max_offset(TOPIC, queue_id) for queue_id in range(QUEUES))


def punctuality(address: str, skip: Sequence[int] = (0,) * QUEUES) -> Punctuality:
    """How punctual all messages in the topic behind the offsets given were."""
    with Control(address, timeout_s=_ANSWER_S) as broker:
        late_ms = [
            message.store_ms - int(message.properties["TIMER_DELIVER_MS"])
            for queue_id in range(QUEUES)
            for message in broker.messages(TOPIC, queue_id, skip[queue_id])
        ]
    return Punctuality.of(late_ms)


class Probe(threading.Thread):
    """Asks the broker a small question again and again: how long others wait while timers are delivered."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._ending = threading.Event()
        self.waits_ms: list[float] = []

    def run(self) -> None:
        with Control(self._address, timeout_s=_ANSWER_S) as broker:
            while not self._ending.wait(0.005):
                begin_s = time.monotonic()
                broker.max_offset(TOPIC, 0)
                self.waits_ms.append((time.monotonic() - begin_s) * 1000)

    def finish(self) -> tuple[float, float]:
        """(p99, max) in milliseconds."""
        self._ending.set()
        self.join(_ANSWER_S)
        waits = sorted(self.waits_ms) or [0.0]
        return waits[int(len(waits) * 0.99)], waits[-1]


def fill_store(folder: Path, pending: int, days: int, body: bytes) -> None:
    """A store with so many pending timers, as a broker leaves it: written through the store, without its network."""
    store = MessageStore(
        StoreConfig(store_path=folder),
        clock=SystemClock(),
        store_host=encode_host("127.0.0.1", 10911),
        post=lambda job: job(),
    )
    store.open()
    start_ms = now_ms() + 3_600_000
    try:
        for first in range(0, pending, FILL_BATCH):
            numbers = range(first, min(first + FILL_BATCH, pending))
            batch = [
                _waiting(n, start_ms + (n * 7919 % pending) * days * DAY_MS // pending, body) for n in numbers
            ]
            store.append_prepared(finish(store.preparing(batch)))
            store.tick()
    finally:
        store.close()


def _waiting(number: int, due_ms: int, body: bytes) -> PendingMessage:
    message = PendingMessage(
        topic=TOPIC,
        queue_id=number % QUEUES,
        flag=0,
        sys_flag=0,
        born_ms=now_ms(),
        born_host=encode_host("127.0.0.1", 50000),
        body=body,
        properties=encode_properties({"UNIQ_KEY": f"U{number:030d}", "TIMER_DELIVER_MS": str(due_ms)}),
    )
    wait_until(message, due_ms)
    return message
