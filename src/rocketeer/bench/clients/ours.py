"""Our client under load, as an application would use it: a new Message for every send, the public classes only."""

import asyncio
import gc
import itertools
import threading
import time
from collections.abc import Coroutine
from typing import Any, Final

from rocketeer import Message, Producer, PushConsumer, ReceivedMessage, aio
from rocketeer.bench.clients.job import BATCH, ClientJob, RunFigures, Stopwatch, repeat, repeat_in_threads
from rocketeer.model.subscription import ConsumeFromWhere

GC_EVERY: Final = 50_000
"""New objects between two collections, where a server sets that; Python has 700."""


def _run(work: Coroutine[Any, Any, RunFigures], job: ClientJob) -> RunFigures:
    """As an application would: with `asyncio.run`, or as servers do."""
    if not job.uvloop:
        return asyncio.run(work)
    import uvloop

    # 100,000 tasks are a million objects: by default the collector looks through all of them, again and again.
    gc.set_threshold(GC_EVERY, 50, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def sync(job: ClientJob) -> RunFigures:
    """One thread, one send at a time."""
    body = b"x" * job.body_bytes
    with Producer(job.group, nameserver=job.namesrv) as producer:
        return repeat(job, lambda number: producer.send(Message(job.topic, body, keys=f"k{number}")))


def threads(job: ClientJob) -> RunFigures:
    """As many threads as sends at once, one producer."""
    body = b"x" * job.body_bytes
    with Producer(job.group, nameserver=job.namesrv) as producer:
        return repeat_in_threads(
            job, lambda number: producer.send(Message(job.topic, body, keys=f"k{number}"))
        )


def concurrent(job: ClientJob) -> RunFigures:
    """As many asyncio tasks as sends at once, one producer on one connection."""
    return _run(_concurrent(job), job)


async def _concurrent(job: ClientJob) -> RunFigures:
    body = b"x" * job.body_bytes
    async with aio.Producer(job.group, nameserver=job.namesrv) as producer:
        watch = Stopwatch(job)
        sent = 0

        async def send() -> None:
            nonlocal sent
            while True:
                began_s = time.perf_counter()
                await producer.send(Message(job.topic, body, keys=f"k{sent}"))
                sent += 1
                if watch.lap(began_s, time.perf_counter(), sent):
                    return

        await asyncio.gather(*(send() for _ in range(job.at_once)))
        return watch.figures(sent)


def gather(job: ClientJob) -> RunFigures:
    """All messages given to one `asyncio.gather`: as many tasks, and every one its own result."""
    return _run(_gather(job), job)


async def _gather(job: ClientJob) -> RunFigures:
    body = b"x" * job.body_bytes
    async with aio.Producer(job.group, nameserver=job.namesrv) as producer:
        await producer.send(Message(job.topic, body))
        cpu_s, began_s = time.process_time(), time.perf_counter()
        results = await asyncio.gather(
            *(producer.send(Message(job.topic, body, keys=f"k{number}")) for number in range(job.count))
        )
        ended_s = time.perf_counter()
        assert len(results) == job.count, "each has its own result"
        return RunFigures(
            messages=job.count,
            seconds=ended_s - began_s,
            cpu_s=time.process_time() - cpu_s,
            sent=job.count + 1,
            ended_ns=time.monotonic_ns(),
        )


def oneway(job: ClientJob) -> RunFigures:
    """One thread; nobody answers, so the broker's queues tell what arrived."""
    body = b"x" * job.body_bytes
    with Producer(job.group, nameserver=job.namesrv) as producer:
        return repeat(job, lambda number: producer.send_oneway(Message(job.topic, body, keys=f"k{number}")))


def batch(job: ClientJob) -> RunFigures:
    """One thread, lists of 32."""
    body = b"x" * job.body_bytes

    def send(number: int) -> None:
        producer.send([Message(job.topic, body, keys=f"k{number}-{each}") for each in range(BATCH)])

    with Producer(job.group, nameserver=job.namesrv) as producer:
        return repeat(job, send, BATCH)


class Arrivals:
    """Counts what a listener gets; time and CPU run from the first message to the last."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._numbers = itertools.count(1)  # next() on it is atomic, whatever thread calls
        self._began_s = self._cpu_s = 0.0
        self._figures: RunFigures | None = None
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._in_lists = 0

    def __call__(self, message: object) -> None:
        number = next(self._numbers)
        if number == 1:
            self._begin()
        elif number == self._count:
            self._end()

    def batch(self, messages: list[ReceivedMessage]) -> None:
        """As empty as a listener of lists can be."""
        with self._guard:
            before, self._in_lists = self._in_lists, self._in_lists + len(messages)
        if not before:
            self._begin()
        if before < self._count <= before + len(messages):
            self._end()

    def _begin(self) -> None:
        self._cpu_s = time.process_time()
        self._began_s = time.perf_counter()

    def _end(self) -> None:
        self._figures = RunFigures(
            messages=self._count,
            seconds=time.perf_counter() - self._began_s,
            cpu_s=time.process_time() - self._cpu_s,
        )
        self._over.set()

    @property
    def arrived(self) -> int:
        return self._in_lists + int(self._numbers.__reduce__()[1][0]) - 1

    def figures(self, timeout_s: float) -> RunFigures:
        if not self._over.wait(timeout_s):
            raise TimeoutError(f"{self.arrived} of {self._count} messages came within {timeout_s:g} s")
        assert self._figures is not None, "set before the event"
        return self._figures


def push(job: ClientJob, timeout_s: float = 120) -> RunFigures:
    """Messages stored already, all options as they come, a listener that only counts."""
    arrivals = Arrivals(job.count)
    if job.aio:
        return asyncio.run(_push(job, arrivals, timeout_s))
    consumer = PushConsumer(
        job.group,
        nameserver=job.namesrv,
        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        consume_batch=job.listener_batch,
    )
    consumer.subscribe(job.topic, arrivals if job.listener_batch == 1 else arrivals.batch)
    with consumer:
        return arrivals.figures(timeout_s)


async def _push(job: ClientJob, arrivals: Arrivals, timeout_s: float) -> RunFigures:
    consumer = aio.PushConsumer(
        job.group, nameserver=job.namesrv, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )

    async def listener(message: object) -> None:
        arrivals(message)

    consumer.subscribe(job.topic, listener)
    async with consumer:
        return await asyncio.to_thread(arrivals.figures, timeout_s)
