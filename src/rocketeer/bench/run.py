"""One run: load processes are spawned, started together, and the clock stops when queues and index have caught up."""

import contextlib
import multiprocessing
import os
import time
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Final

from rocketeer.bench.control import Control
from rocketeer.bench.histogram import Latencies
from rocketeer.bench.load import LastSent, Load, LoadFailed, LoadResult
from rocketeer.bench.processes import cpu_seconds
from rocketeer.bench.pulls import PullLoop, WaitingPuller
from rocketeer.bench.sends import SendLoop

BOTTLENECK_SHARE: Final = 0.9
LATE_US: Final = 300
_CATCH_UP_S: Final = 30.0
_READY_S: Final = 30.0
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The figures of one run, as reported."""

    mode: str
    server: str
    connections: int
    in_flight: int
    body_bytes: int
    messages: int
    seconds: float
    messages_per_s: float
    p50_us: int
    p99_us: int
    p999_us: int
    within_1ms: float
    catch_up_s: float
    refused: int
    mismatched: int
    unanswered: int
    lost_or_invented: int
    load_cpu_share: float
    """Share of one core that the busiest load process took; over 0.9 the load generator was the bottleneck."""
    server_cpu_s_per_million: float | None
    rate: float | None = None
    lateness_p99_us: int | None = None
    """Open loop only: how late the generator itself was with 1% of the requests."""
    notes: tuple[str, ...] = field(default=())


def measure(
    load: Load, *, mode: str, server: str, pid: int | None, processes: int = 1, puller: bool = False
) -> Measured:
    """Run the load in `processes` processes (and a waiting puller beside them) and report."""
    sends = load.kind != "pull"
    with Control(load.address) as control:
        before = _settled_ends(control, load) if sends else {}
        parts = _split(load, processes)
        roles = [("load", part) for part in parts]
        if puller:
            ends = {place: end for place, end in before.items() if place[0] == load.target.topics[0]}
            roles.append(("puller", replace(load, kind="pull", queue_ends=ends)))
        workers = [_Worker(role, part) for role, part in roles]
        try:
            for worker in workers:
                worker.expect_ready()
            started_ns = time.monotonic_ns() + 100_000_000
            for worker in workers:
                worker.begin(started_ns)
            time.sleep(max(0.0, (started_ns - time.monotonic_ns()) / 1e9 + load.warmup_s))
            cpu_before = cpu_seconds(pid) if pid else 0.0
            patience_s = load.warmup_s + load.seconds + _READY_S
            last = [sent for worker in workers for sent in worker.drained(patience_s)]
            _catch_up(control, last)
            caught_up_ns = time.monotonic_ns()
            cpu_s = cpu_seconds(pid) - cpu_before if pid else None
            outcomes = [worker.outcome(_READY_S) for worker in workers]
        finally:
            for worker in workers:
                worker.close()
        senders = outcomes[: len(parts)]
        lost = _difference(control, load, before, senders) if sends else 0
    timed = outcomes[-1:] if puller else senders
    latencies = Latencies(outcome.latencies for outcome in timed)
    lateness = Latencies(outcome.lateness for outcome in senders)
    messages = sum(outcome.messages for outcome in senders)
    began_ns = min(outcome.started_ns for outcome in senders)
    ended_ns = max(outcome.ended_ns for outcome in senders)
    seconds = ((caught_up_ns if sends else ended_ns) - began_ns) / 1e9
    share = max(outcome.cpu_s / ((outcome.ended_ns - outcome.started_ns) / 1e9) for outcome in outcomes)
    return Measured(
        mode=mode,
        server=server,
        connections=load.connections,
        in_flight=load.in_flight,
        body_bytes=load.body_bytes,
        messages=messages,
        seconds=round(seconds, 3),
        messages_per_s=round(messages / seconds),
        p50_us=latencies.percentile_us(0.5),
        p99_us=latencies.percentile_us(0.99),
        p999_us=latencies.percentile_us(0.999),
        within_1ms=round(latencies.share_within(1000), 5),
        catch_up_s=round((caught_up_ns - ended_ns) / 1e9, 3) if sends else 0.0,
        refused=sum(outcome.refused for outcome in outcomes),
        mismatched=sum(outcome.mismatched for outcome in outcomes),
        unanswered=sum(outcome.unanswered for outcome in outcomes),
        lost_or_invented=lost,
        load_cpu_share=round(share, 3),
        server_cpu_s_per_million=round(cpu_s / messages * 1e6, 2) if cpu_s is not None and messages else None,
        rate=load.rate,
        lateness_p99_us=lateness.percentile_us(0.99) if load.rate else None,
        notes=tuple(_notes(load, outcomes, share, lateness.percentile_us(0.99))),
    )


def _notes(load: Load, outcomes: list[LoadResult], share: float, late_us: int) -> list[str]:
    refusals = [(text, count) for outcome in outcomes for text, count in outcome.refusals.items()]
    notes = [f"refused: {text.strip()} ({count}x)" for text, count in refusals[:5]]
    # An open loop spins on purpose, so its CPU share says nothing; its lateness does.
    if load.rate is None and share > BOTTLENECK_SHARE:
        notes.append(f"the load generator was the bottleneck: {share:.0%} of a core")
    if load.rate is not None and late_us > LATE_US:
        notes.append(f"the load generator itself was {late_us} us late at p99: latencies are upper bounds")
    return notes


def _split(load: Load, processes: int) -> list[Load]:
    """The connections shared out among processes; each numbers its own."""
    processes = max(1, min(processes, load.connections))
    parts, first = [], load.first_connection
    for index in range(processes):
        count = load.connections // processes + (index < load.connections % processes)
        rate = load.rate * count / load.connections if load.rate else None
        parts.append(replace(load, first_connection=first, connections=count, rate=rate))
        first += count
    return parts


# --- catching up -----------------------------------------------------------------------------


def _queue_ends(control: Control, load: Load) -> dict[tuple[str, int], int]:
    return {
        (topic, queue): control.max_offset(topic, queue)
        for topic in load.target.topics
        for queue in range(load.target.queues)
    }


def _settled_ends(control: Control, load: Load) -> dict[tuple[str, int], int]:
    """The ends of the queues when nothing of an earlier load is still on its way into them."""
    give_up_s = time.monotonic() + _CATCH_UP_S
    ends = _queue_ends(control, load)
    while time.monotonic() < give_up_s:
        time.sleep(0.1)
        again = _queue_ends(control, load)
        if again == ends:
            return ends
        ends = again
    raise LoadFailed(f"somebody else writes to {load.target.topics[0]}; the run needs the topic to itself")


def _catch_up(control: Control, last: list[LastSent]) -> None:
    """Wait until the ConsumeQueue and the index know the last message of every connection."""
    give_up_s = time.monotonic() + _CATCH_UP_S
    for sent in last:
        while not (
            control.max_offset(sent.topic, sent.queue) > sent.queue_offset
            and control.has_key(sent.topic, sent.key)
        ):
            if time.monotonic() > give_up_s:
                raise LoadFailed(
                    f"{_CATCH_UP_S:g} s after the last reply, message {sent.key} of {sent.topic} queue {sent.queue} "
                    f"(offset {sent.queue_offset}) is not yet in its queue and the index"
                )
            time.sleep(0.0005)


def _difference(
    control: Control, load: Load, before: dict[tuple[str, int], int], outcomes: list[LoadResult]
) -> int:
    """How many messages the queues have more than were acknowledged; refused and unanswered ones may be stored."""
    grown = sum(_queue_ends(control, load).values()) - sum(before.values())
    acknowledged = sum(outcome.all_messages for outcome in outcomes)
    unsure = sum(outcome.refused + outcome.unanswered for outcome in outcomes)
    return grown - acknowledged if not 0 <= grown - acknowledged <= unsure else 0


# --- processes -------------------------------------------------------------------------------


class _Worker:
    """A spawned load process and the pipe to it."""

    def __init__(self, role: str, load: Load) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_work, args=(theirs, role, load), daemon=True)
        self._process.start()
        theirs.close()

    def _receive(self, timeout_s: float) -> object:
        if not self._pipe.poll(timeout_s):
            raise LoadFailed(f"a load process said nothing for {timeout_s:g} s")
        try:
            said = self._pipe.recv()
        except EOFError:
            raise LoadFailed("a load process ended without a word") from None
        if isinstance(said, str) and said != "ready":
            raise LoadFailed(said)
        return said

    def expect_ready(self) -> None:
        self._receive(_READY_S)

    def begin(self, started_ns: int) -> None:
        self._pipe.send(started_ns)

    def drained(self, timeout_s: float) -> tuple[LastSent, ...]:
        said = self._receive(timeout_s)
        assert isinstance(said, tuple)
        return said

    def outcome(self, timeout_s: float) -> LoadResult:
        said = self._receive(timeout_s)
        assert isinstance(said, LoadResult)
        return said

    def close(self) -> None:
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()


def _work(pipe: Connection, role: str, load: Load) -> None:
    """What a load process does; its errors travel to the parent as text."""
    try:
        if load.cores is not None:
            os.sched_setaffinity(0, load.cores)
        kinds: dict[str, type[SendLoop] | type[PullLoop]] = {"pull": PullLoop}
        loop = WaitingPuller(load) if role == "puller" else kinds.get(load.kind, SendLoop)(load)
        pipe.send("ready")
        pipe.send(loop.run(pipe.recv(), drained=pipe.send))
    except (LoadFailed, OSError) as why:
        with contextlib.suppress(BrokenPipeError):  # the parent gave up first
            pipe.send(f"{type(why).__name__}: {why}")
