"""The rows of the comparison: each is run by both libraries in turn, in fresh processes, against one broker.

After every run the broker's queues are asked how many messages they gained: what a library counts as sent and what
is stored are two different things for one-way sends, and must be the same for all others.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rocketeer import Message, Producer, split_batch
from rocketeer.bench.clients.job import BATCH, QUEUES, ClientJob, Library, Mode, RunFigures
from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerFailed
from rocketeer.bench.servers import ServerCluster
from rocketeer.client.plans.offsets import commit_offset
from rocketeer.model.offsets import QueueOffset

_SETTLE_S: Final = 20.0
_STARTUP_S: Final = 30.0
_PUSH_S: Final = 120.0
SMALL_BYTES: Final = 32
TOPIC: Final = "bench_clients"
PUSH_TOPIC: Final = "bench_clients_push"
GATHERED: Final = "async send, 100,000 gathered"
GATHERED_COUNT: Final = 100_000
PUSH_BATCHES: Final = "push, empty listener of lists of 32"


class ClientRow(msgspec.Struct, frozen=True):
    """One way to use a library. `at_once` as in a ClientJob; 0 leaves a consumer's threads to the library."""

    name: str
    library: Library
    mode: Mode
    at_once: int = 1
    aio: bool = False
    body_bytes: int = 0
    """Instead of what the run is asked for."""
    acknowledged: bool = False
    """A candidate for the library's fastest acknowledged send."""
    listener_batch: int = 1
    """How many messages a listener is given at a time."""
    uvloop: bool = False
    """On uvloop, with the garbage collector at long intervals, as servers are run."""


ROWS: Final[tuple[ClientRow, ...]] = (
    ClientRow("sync send", "ours", "sync", acknowledged=True),
    ClientRow("sync send", "cpp", "sync", acknowledged=True),
    ClientRow("async send x 64", "ours", "async", 64, acknowledged=True),
    ClientRow("async send x 64, uvloop", "ours", "async", 64, acknowledged=True, uvloop=True),
    ClientRow(GATHERED, "ours", "gather", 0),
    ClientRow(f"{GATHERED}, uvloop", "ours", "gather", 0, uvloop=True),
    ClientRow("async send x 64 (callbacks)", "cpp", "async", 64, acknowledged=True),
    ClientRow("sync send, 4 threads", "cpp", "threads", 4, acknowledged=True),
    ClientRow("sync send, 16 threads", "cpp", "threads", 16, acknowledged=True),
    ClientRow("sync send, 64 threads", "cpp", "threads", 64, acknowledged=True),
    ClientRow("oneway", "ours", "oneway"),
    ClientRow("oneway", "cpp", "oneway"),
    ClientRow(f"batch of {BATCH}", "ours", "batch"),
    # The C++ library compresses whole batches over 4 KB, which no broker can read: its bodies must be small.
    ClientRow(f"batch of {BATCH}, {SMALL_BYTES} B", "ours", "batch", body_bytes=SMALL_BYTES),
    ClientRow(f"batch of {BATCH}, {SMALL_BYTES} B", "cpp", "batch", body_bytes=SMALL_BYTES),
    ClientRow("push, empty listener", "ours", "push", 0),
    ClientRow("push, empty listener", "cpp", "push", 0),
    ClientRow(PUSH_BATCHES, "ours", "push", 0, listener_batch=32),
    ClientRow("push, empty coroutine", "ours", "push", 0, aio=True),
    ClientRow("push, one thread", "cpp", "push", 1),
)


class ClientRun(msgspec.Struct, frozen=True):
    """One row's figures in one round, as reported."""

    row: str
    library: Library
    mode: Mode
    acknowledged: bool
    messages: int
    messages_per_s: float
    cpu_us_per_message: float
    p50_us: int
    p99_us: int
    lost: int
    """Sent and never stored; must be 0 except for one-way sends."""


class Rounds:
    """Runs rows against a cluster that has just been started."""

    def __init__(
        self,
        cluster: ServerCluster,
        home: Path,
        *,
        seconds: float,
        warmup_s: float,
        body_bytes: int,
        consumed: int,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._cluster = cluster
        self._home = home
        self._seconds = seconds
        self._warmup_s = warmup_s
        self._body_bytes = body_bytes
        self._consumed = consumed
        self._say = say
        self._groups = 0
        with Control(cluster.broker) as control:
            for topic in (TOPIC, PUSH_TOPIC):
                control.create_topic(topic, queues=QUEUES)

    def run(self, rows: Sequence[ClientRow], rounds: int) -> Iterator[ClientRun]:
        """Every row once a round: whatever else the machine does hits both libraries."""
        if any(row.mode == "push" for row in rows):
            self._say(f"storing {self._consumed:,} messages to consume")
            store_messages(self._cluster.namesrv, PUSH_TOPIC, self._consumed, self._body_bytes)
        for number in range(rounds):
            for row in rows:
                done = self._push(row) if row.mode == "push" else self._send(row)
                self._say(
                    f"{number + 1}/{rounds} {row.library:5} {row.name}: {done.messages_per_s:,.0f}/s, "
                    f"{done.cpu_us_per_message:.1f} us CPU a message"
                )
                yield done

    def _send(self, row: ClientRow) -> ClientRun:
        with Control(self._cluster.broker) as control:
            before = _stored(control, TOPIC)
            figures = self._measure(self._job(row, TOPIC))
            gained, stored_ns = _settled(control, TOPIC, before + figures.sent)
        lost = figures.sent - (gained - before)
        seconds, messages = figures.seconds, figures.messages
        if row.mode == "oneway":
            # Not what was thrown at the socket counts, but what the broker had, when it had it.
            seconds += max(stored_ns - figures.ended_ns, 0) / 1e9
            messages -= lost
        return _as_run(row, figures, messages, seconds, lost)

    def _push(self, row: ClientRow) -> ClientRun:
        job = self._job(row, PUSH_TOPIC)
        with Control(self._cluster.broker) as control:
            for queue_id in range(QUEUES):  # a new group begins at the end of old queues: it gets a past
                queue = control.queue(PUSH_TOPIC, queue_id)
                control.run(commit_offset(control.cluster, job.group, queue, QueueOffset(0)))
        figures = self._measure(job)
        return _as_run(row, figures, figures.messages, figures.seconds, 0)

    def _job(self, row: ClientRow, topic: str) -> ClientJob:
        self._groups += 1
        return ClientJob(
            library=row.library,
            mode=row.mode,
            namesrv=self._cluster.namesrv,
            topic=topic,
            group=f"bench_{row.library}_{self._groups}",
            seconds=self._seconds,
            warmup_s=self._warmup_s,
            body_bytes=row.body_bytes or self._body_bytes,
            at_once=row.at_once,
            count=GATHERED_COUNT if row.mode == "gather" else self._consumed,
            listener_batch=row.listener_batch,
            uvloop=row.uvloop,
            aio=row.aio,
        )

    def _measure(self, job: ClientJob) -> RunFigures:
        command = [sys.executable, "-m", "rocketeer.bench.clients.worker", msgspec.json.encode(job).decode()]
        limit_s = _STARTUP_S + (_PUSH_S if job.mode in ("push", "gather") else job.warmup_s + job.seconds)
        # They write logs into their home; standard error goes to a file of its own.
        errors = self._home / f"{job.group}.err"
        with errors.open("wb") as sink:
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=sink,
                    env={**os.environ, "HOME": str(self._home)},
                    timeout=limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise ServerFailed(f"the client process did not end within {limit_s:g} s: {job}") from None
        said = done.stdout.decode(errors="replace").strip().splitlines()
        if done.returncode != 0 or not said:
            why = "\n".join([*said[-5:], *errors.read_text(errors="replace").splitlines()[-15:]])
            raise ServerFailed(f"{job.library} {job.mode} failed with exit code {done.returncode}\n{why}")
        return msgspec.json.decode(said[-1], type=RunFigures)


def store_messages(namesrv: str, topic: str, count: int, body_bytes: int) -> None:
    """`count` messages, spread over the queues in batches."""
    body = b"x" * body_bytes
    with Producer("bench_filler", nameserver=namesrv) as producer:
        left = count
        while left:
            part = [Message(topic, body, keys=f"k{left - n}") for n in range(min(left, 256))]
            for batch in split_batch(part, bytes_max=1 << 20):
                producer.send(batch)
            left -= len(part)


def _as_run(row: ClientRow, figures: RunFigures, messages: int, seconds: float, lost: int) -> ClientRun:
    return ClientRun(
        row.name,
        row.library,
        row.mode,
        row.acknowledged,
        messages,
        messages / seconds,
        figures.cpu_s / max(messages, 1) * 1e6,
        figures.p50_us,
        figures.p99_us,
        lost,
    )


def _stored(control: Control, topic: str) -> int:
    return sum(control.max_offset(topic, queue_id) for queue_id in range(QUEUES))


def _settled(control: Control, topic: str, wanted: int) -> tuple[int, int]:
    """What the queues hold once all has arrived or nothing more comes, and when that was."""
    seen, seen_ns = _stored(control, topic), time.monotonic_ns()
    give_up_s = time.monotonic() + _SETTLE_S
    while seen < wanted and time.monotonic() < give_up_s:
        if time.monotonic_ns() - seen_ns > 2e9:
            break  # two seconds without a message: the rest is lost
        time.sleep(0.01)
        now = _stored(control, topic)
        if now != seen:
            seen, seen_ns = now, time.monotonic_ns()
    return seen, seen_ns
