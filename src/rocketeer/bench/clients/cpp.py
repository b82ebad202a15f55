"""PyPI's `rocketmq` 0.4.4 (a C++ core behind ctypes) under the same load, through its public classes.

It has no asyncio; what it does side by side is threads that call `send_sync`, or `send_async` with callbacks.
"""

import itertools
import threading
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rocketeer.bench.clients.job import BATCH, Figures, Job, Stopwatch
from rocketeer.bench.clients.ours import Arrivals

PACKAGE = "rocketmq"


def label() -> str | None:
    """Name and version of the library; None when it is not installed."""
    try:
        return f"{PACKAGE} {version(PACKAGE)}"
    except PackageNotFoundError:
        return None


def _client() -> Any:
    return import_module("rocketmq.client")


def _producer(job: Job) -> Any:
    producer = _client().Producer(job.group, timeout=10_000)
    producer.set_namesrv_addr(job.namesrv)
    producer.start()
    return producer


def _messages(job: Job) -> Any:
    """A function that makes the message of a number."""
    kind = _client().Message
    body = b"x" * job.body_bytes

    def make(number: object) -> Any:
        message = kind(job.topic)
        message.set_keys(f"k{number}")
        message.set_body(body)
        return message

    return make


def sync(job: Job) -> Figures:
    producer, make = _producer(job), _messages(job)
    watch = Stopwatch(job)
    for number in itertools.count(1):
        began_s = time.perf_counter()
        producer.send_sync(make(number))
        if watch.lap(began_s, time.perf_counter(), number):
            return watch.figures(number)
    raise AssertionError("itertools.count ended")


def threads(job: Job) -> Figures:
    producer, make = _producer(job), _messages(job)
    numbers = itertools.count(1)
    watch = Stopwatch(job)
    sent = [0] * job.at_once

    def send(slot: int) -> None:
        while True:
            number = next(numbers)
            began_s = time.perf_counter()
            producer.send_sync(make(number))
            sent[slot] += 1
            if watch.lap(began_s, time.perf_counter(), number):
                return

    running = [threading.Thread(target=send, args=(slot,)) for slot in range(job.at_once)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return watch.figures(sum(sent))


def concurrent(job: Job) -> Figures:
    """`send_async` with callbacks. Only answered messages count."""
    producer, make = _producer(job), _messages(job)
    watch = Stopwatch(job)
    places = threading.Semaphore(job.at_once)
    answered = itertools.count(1)
    failed: list[object] = []
    over = threading.Event()

    def succeeded(began_s: float) -> None:
        if watch.lap(began_s, time.perf_counter(), next(answered)):
            over.set()
        places.release()

    def refused(error: object) -> None:
        failed.append(error)
        places.release()

    sent = 0
    while not over.is_set() and not failed:
        if places.acquire(timeout=0.1):
            sent += 1
            began_s = time.perf_counter()
            producer.send_async(make(sent), lambda _, began_s=began_s: succeeded(began_s), refused)
    for _ in range(job.at_once):
        places.acquire(timeout=5)
    if failed:
        raise RuntimeError(f"send_async failed: {failed[0]}")
    return watch.figures(sent)


def oneway(job: Job) -> Figures:
    producer, make = _producer(job), _messages(job)
    watch = Stopwatch(job)
    for number in itertools.count(1):
        began_s = time.perf_counter()
        producer.send_oneway(make(number))
        if watch.lap(began_s, time.perf_counter(), number):
            return watch.figures(number)
    raise AssertionError("itertools.count ended")


def batch(job: Job) -> Figures:
    producer, make = _producer(job), _messages(job)
    watch = Stopwatch(job)
    for number in itertools.count(1):
        began_s = time.perf_counter()
        producer.send_batch([make(f"{number}-{each}") for each in range(BATCH)])
        if watch.lap(began_s, time.perf_counter(), number * BATCH):
            return watch.figures(number * BATCH)
    raise AssertionError("itertools.count ended")


def push(job: Job, timeout_s: float = 120) -> Figures:
    arrivals = Arrivals(job.count)
    consumer = _client().PushConsumer(job.group)
    consumer.set_namesrv_addr(job.namesrv)
    if job.at_once:
        consumer.set_thread_count(job.at_once)
    consumer.subscribe(job.topic, arrivals)
    consumer.start()
    return arrivals.figures(timeout_s)
