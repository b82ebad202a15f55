"""PyPI's `rocketmq` 0.4.4 (a C++ core behind ctypes) under the same load, through its public classes.

It has no asyncio; what it does side by side is threads that call `send_sync`, or `send_async` with callbacks.
"""

import itertools
import threading
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rocketeer.bench.clients.job import BATCH, ClientJob, RunFigures, Stopwatch, repeat, repeat_in_threads
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


def _producer(job: ClientJob) -> Any:
    producer = _client().Producer(job.group, timeout=10_000)
    producer.set_namesrv_addr(job.namesrv)
    producer.start()
    return producer


def _messages(job: ClientJob) -> Any:
    """A function that makes the message of a number."""
    kind = _client().Message
    body = b"x" * job.body_bytes

    def make(number: object) -> Any:
        message = kind(job.topic)
        message.set_keys(f"k{number}")
        message.set_body(body)
        return message

    return make


def sync(job: ClientJob) -> RunFigures:
    producer, make = _producer(job), _messages(job)
    return repeat(job, lambda number: producer.send_sync(make(number)))


def threads(job: ClientJob) -> RunFigures:
    producer, make = _producer(job), _messages(job)
    return repeat_in_threads(job, lambda number: producer.send_sync(make(number)))


def concurrent(job: ClientJob) -> RunFigures:
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


def oneway(job: ClientJob) -> RunFigures:
    producer, make = _producer(job), _messages(job)
    return repeat(job, lambda number: producer.send_oneway(make(number)))


def batch(job: ClientJob) -> RunFigures:
    producer, make = _producer(job), _messages(job)

    def send(number: int) -> None:
        producer.send_batch([make(f"{number}-{each}") for each in range(BATCH)])

    return repeat(job, send, BATCH)


def push(job: ClientJob, timeout_s: float = 120) -> RunFigures:
    arrivals = Arrivals(job.count)
    consumer = _client().PushConsumer(job.group)
    consumer.set_namesrv_addr(job.namesrv)
    if job.at_once:
        consumer.set_thread_count(job.at_once)
    consumer.subscribe(job.topic, arrivals)
    consumer.start()
    return arrivals.figures(timeout_s)
