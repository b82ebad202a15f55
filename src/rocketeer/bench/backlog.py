"""What a backlog costs: the same figures of one broker with few messages in its store, and with very many.

fill -> sends, pulls of the newest messages, memory, kill -9 under load and the start after it -> fill more -> again
"""

import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rocketeer.bench.control import Control
from rocketeer.bench.load import Load
from rocketeer.bench.processes import anonymous_bytes, wait_for
from rocketeer.bench.run import Measured, measure
from rocketeer.bench.servers import ServerCluster
from rocketeer.bench.session import (
    BenchServer,
    LoadPlan,
    broker_cores,
    load_of,
    run_batch,
    run_send,
    server_of,
    wait_until_settled,
)
from rocketeer.errors import RocketeerError

WINDOW: Final = 1_000_000
"""Messages that are pulled, over and over: the newest, or the oldest."""
_OVERHEAD_BYTES: Final = 260
"""What a load generator's message has on disk beside its body: the record's fields, properties, queue, two keys."""
_FILL_S: Final = 10.0
_CONF: Final = {
    "waitTimeMillsInSendQueue": 10_000,  # sends are not refused because the machine is busy
    "diskMaxUsedSpaceRatio": 98,  # nothing is deleted before its time
    "diskSpaceCleanForciblyRatio": 99,
    "diskSpaceWarningLevelRatio": 100,
}

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class BacklogState:
    """A broker with so many messages."""

    messages: int
    sends_per_s: float
    pulls_per_s: float
    """Messages a second out of pulls of 32, from the newest million."""
    oldest_per_s: float
    """The same from the oldest: what a consumer that starts now begins with."""
    start_s: float
    """From the start after kill -9 under load until it serves."""
    anonymous_bytes: int


def bytes_needed(messages: int, body_bytes: int) -> int:
    """On disk, for the messages and the sends that are measured on top."""
    return (messages + 20_000_000) * (body_bytes + _OVERHEAD_BYTES)


class Backlog:
    """Measures one broker of ours in `folder`, whose disk must have the room."""

    def __init__(self, folder: Path, plan: LoadPlan, say: Say) -> None:
        self._plan = plan
        self._say = say
        core, self._load_cores = broker_cores()
        self.cluster = ServerCluster("ours", folder, conf=_CONF, cores=core, ready_s=600)
        self.runs: list[Measured] = []

    @property
    def _server(self) -> BenchServer:
        return server_of(self.cluster, self._load_cores)

    def check_room(self, messages: int) -> None:
        """Raise before anything is written if the disk cannot take it."""
        folder = self.cluster.folder
        folder.mkdir(parents=True, exist_ok=True)
        needed, free = bytes_needed(messages, self._plan.body_bytes), shutil.disk_usage(folder).free
        if free < needed:
            raise RocketeerError(
                f"{messages:,} messages need {needed / 1e9:.0f} GB, {folder} has {free / 1e9:.0f} GB free: "
                "choose another --folder, or fewer --messages"
            )

    def state_at(self, messages: int) -> BacklogState:
        """Fill the store up to so many messages, and measure."""
        self._fill(messages)
        held = self._held()
        state = BacklogState(
            messages=held,
            sends_per_s=self._median(lambda: run_send(self._server, self._plan, f"send at {held:,}")),
            pulls_per_s=self._median(lambda: self._pull(newest=True)),
            oldest_per_s=self._median(lambda: self._pull(newest=False)),
            anonymous_bytes=anonymous_bytes(self.cluster.broker_process.pid),
            start_s=self._start_after_kill(),
        )
        self._say(
            f"with {held:,} messages: {state.sends_per_s:,.0f} sends/s, {state.pulls_per_s:,.0f} pulled/s "
            f"({state.oldest_per_s:,.0f}/s of the oldest), {state.anonymous_bytes / 1e6:.0f} MB, "
            f"start after kill -9 in {state.start_s:.2f} s"
        )
        return state

    def _fill(self, messages: int) -> None:
        plan = replace(self._plan, warmup_s=0.0, rate=None)
        per_s = 200_000.0
        while (left := messages - self._held()) > 0:
            run = run_batch(self._server, replace(plan, seconds=max(0.2, min(_FILL_S, left / per_s))))
            per_s = max(run.messages_per_s, 1.0)
            self._say(f"{messages - left + run.messages:,} messages stored, {per_s:,.0f}/s")

    def _held(self) -> int:
        return sum(load_of(self._server, self._plan, "pull").queue_ends.values())

    def _median(self, once: Callable[[], Measured]) -> float:
        rates = []
        for _ in range(self._plan.rounds):
            wait_until_settled([self._server])
            run = once()
            self.runs.append(run)
            rates.append(run.messages_per_s)
        return statistics.median(rates)

    def _pull(self, *, newest: bool) -> Measured:
        load = load_of(self._server, self._plan, "pull")
        mode = "pull newest" if newest else "pull oldest"
        return measure(_windowed(load, newest=newest), mode=mode, server="ours", pid=self._server.pid)

    def _start_after_kill(self) -> float:
        """The broker dies while messages come in, so that there is something to recover."""
        plan = replace(self._plan, seconds=4.0, warmup_s=0.0)
        failed: list[RocketeerError] = []

        def send() -> None:
            try:
                run_send(self._server, plan)
            except RocketeerError as error:  # of course: the broker died
                failed.append(error)

        sender = threading.Thread(target=send)
        ends = self._held()
        sender.start()
        with Control(self.cluster.broker) as control:
            topic = load_of(self._server, self._plan, "pull").target.topics[0]
            queues = range(self._plan.queues)
            if not wait_for(
                lambda: sum(control.max_offset(topic, queue) for queue in queues) >= ends + 100_000, 30
            ):
                raise RocketeerError("no load reached the broker that was to be killed under it")
        self.cluster.kill_broker()
        sender.join()
        os.sync()  # the kernel's own writing is no part of the start
        begin_s = time.monotonic()
        self.cluster.start_broker()
        return time.monotonic() - begin_s


def _windowed(load: Load, *, newest: bool) -> Load:
    """Pulls of a part of the queues only."""
    each = WINDOW // max(load.target.queues, 1)
    begins = {place: max(0, end - each) for place, end in load.queue_ends.items()}
    if newest:
        return replace(load, queue_begins=begins)
    return replace(load, queue_ends={place: min(end, each) for place, end in load.queue_ends.items()})
