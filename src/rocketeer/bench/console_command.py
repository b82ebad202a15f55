"""`rocketeer bench console`: what many browsers that look at the console cost a broker that is busy."""

import http.client
import json as json_format
import statistics
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rocketeer.bench import report
from rocketeer.bench.compare import console as terminal
from rocketeer.bench.compare import finish
from rocketeer.bench.meter import STEADY_S, SteadyLoad, lost_shares, typical
from rocketeer.bench.options import Folder, Json, QueuesOption
from rocketeer.bench.processes import ServerProcess, cpu_seconds
from rocketeer.bench.run import Measured
from rocketeer.bench.servers import HOST, ServerCluster
from rocketeer.bench.session import (
    BenchServer,
    LoadPlan,
    broker_cores,
    run_send,
    scratch,
    server_of,
    wait_until_settled,
)
from rocketeer.config.ports import free_ports
from rocketeer.errors import RocketeerError
from rocketeer.model.data_version import DataVersion
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.topic import TopicConfig, retry_topic
from rocketeer.protocol.bodies.groups import GROUP_ENTRIES
from rocketeer.protocol.bodies.topics import TOPIC_ENTRIES
from rocketeer.protocol.bodies.wire import encode_entry

LOST_MAX = 0.05
"""Largest share of the throughput that the browsers may cost."""
FIRST_PAGE_MS_MAX = 300.0
_THREADS = 10
_LOOKS = 20
_READY_S = 60.0
_LOOKING_S = 15.0
SPELL_S = 3.0


def place_tables(store: Path, *, topics: int, groups: int, queues: int) -> None:
    """What a broker would have after a while of all these topics and groups; each group consumes two topics."""
    config = store / "config"
    config.mkdir(parents=True)
    names = [f"topic-{number:04d}" for number in range(topics)]
    members = [f"group-{number:04d}" for number in range(groups)]
    table = {name: TopicConfig(name, queues, queues) for name in names}
    table |= {retry_topic(group): TopicConfig(retry_topic(group), 1, 1) for group in members}
    offsets = {
        f"{names[(number + step * 7) % topics]}@{group}": {str(queue): 0 for queue in range(queues)}
        for number, group in enumerate(members)
        for step in (0, 1)
    }
    version = DataVersion(1, 1)
    (config / "topics.json").write_bytes(TOPIC_ENTRIES.join(map(encode_entry, table.values()), version))
    (config / "subscriptionGroup.json").write_bytes(
        GROUP_ENTRIES.join([encode_entry(SubscriptionGroup(group)) for group in members], version)
    )
    (config / "consumerOffset.json").write_text(json_format.dumps({"offsetTable": offsets}))


class Browsers:
    """Browsers that each refresh a page every few seconds: those pages that refresh themselves."""

    PATHS = ("/", "/cluster", "/groups", "/groups?sort=-lag", "/topics/topic-0001", "/groups/group-0001",
             "/producers", "/pipeline", "/delayed", "/dead-letters")  # fmt: skip

    def __init__(self, port: int, count: int, every_s: float) -> None:
        self._port = port
        self._rate = count / every_s
        self._began_s = 0.0
        self._taken = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(_THREADS)]
        self.took_s: list[float] = []
        self.failures: list[str] = []

    def __enter__(self) -> "Browsers":
        self._began_s = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=60)
        while True:
            with self._lock:
                number, self._taken = self._taken, self._taken + 1
            wait_s = self._began_s + number / self._rate - time.monotonic()
            if self._stop.wait(max(wait_s, 0.0)):
                return
            began_s = time.monotonic()
            status = _look(connection, self.PATHS[number % len(self.PATHS)])
            self.took_s.append(time.monotonic() - began_s)
            if status != 200:
                self.failures.append(f"{self.PATHS[number % len(self.PATHS)]}: {status}")


def _look(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("GET", f"/c/default{path}", headers={"hx-request": "true"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def console(
    topics: Annotated[int, typer.Option(min=2, max=9999, help="Topics.")] = 1_000,
    groups: Annotated[int, typer.Option(min=2, help="Consumer groups, on two topics each.")] = 2_500,
    browsers: Annotated[int, typer.Option(min=1, help="Browsers that look.")] = 50,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between two refreshes of one.")] = 5,
    queues: QueuesOption = 8,
    rounds: Annotated[
        int,
        typer.Option(
            min=0, help="Spells of 3 s with browsers, each between two without; 0: only how long pages take."
        ),
    ] = 6,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Sends to one topic, and browsers that look at the console now and then: what their looking costs.

    Each spell with browsers is compared with those before and after it in the same load. The console and the
    browsers have the cores the broker has not. Exit code 1 when the first page takes too long, or looking costs
    more of the throughput than it may.
    """
    about = report.machine()
    runs: list[Measured] = []
    figures: dict[str, Any] = {}
    ours_core, load_cores = broker_cores()
    with scratch(folder) as base:
        place_tables(base / "store", topics=topics, groups=groups, queues=queues)
        with ServerCluster("ours", base, cores=ours_core) as cluster:
            server = server_of(cluster, load_cores)
            terminal.print(f"  {topics:,} topics of {queues} queues, {groups:,} groups")
            _, port = free_ports()
            command = [sys.executable, "-m", "rocketeer.cli.main", "console", "-n", cluster.namesrv]
            command += ["--port", str(port)]
            watching = ServerProcess(command, log=base / "console.out", cores=load_cores)
            try:
                watching.wait_until(lambda: _serves(port), timeout_s=_READY_S, what="the console")
                figures |= page_times(port)
                terminal.print(
                    f"  the first page came after {figures['first_ms']} ms, then {figures['median_ms']} ms (median); "
                    f"at most {FIRST_PAGE_MS_MAX:g} may be"
                )
                figures["cpu_share"] = cost_of_looking(server, port, browsers, every)
                terminal.print(
                    f"  {browsers} browsers take {figures['cpu_share']:.1%} of a core of a broker that is idle"
                )
                if rounds:
                    plan = LoadPlan(queues=queues)
                    figures["lost"], run = cost_under_load(
                        server, watching, port, plan, rounds, browsers, every
                    )
                    runs.append(run)
            finally:
                watching.stop()
    if runs:
        report.print_runs(runs, terminal)
        terminal.print(
            f"  {browsers} browsers cost {figures['lost']:.1%} of the throughput (at most {LOST_MAX:.0%} may be)"
        )
    passed = figures.get("lost", 0.0) <= LOST_MAX and figures["first_ms"] <= FIRST_PAGE_MS_MAX
    finish(about, runs, json, console={**figures, "passed": passed})
    if not passed:
        raise typer.Exit(1)


def cost_under_load(
    server: BenchServer,
    watching: ServerProcess,
    port: int,
    plan: LoadPlan,
    spells: int,
    browsers: int,
    every_s: float,
) -> tuple[float, Measured]:
    """The share of the throughput that the browsers cost, and the load it was measured in."""
    run_send(server, plan, "warm-up")
    wait_until_settled([server])
    moments_s: list[float] = []
    took_s: list[float] = []
    failures: list[str] = []
    cpu_s = cpu_seconds(watching.pid)
    seconds = 2 * SPELL_S * spells + SPELL_S + 2 * STEADY_S
    mode = f"send, {browsers} browsers every {every_s:g} s, half of the time"
    with SteadyLoad(server, replace(plan, seconds=seconds), mode) as load:
        time.sleep(SPELL_S)
        for _ in range(spells):
            moments_s.append(time.monotonic())
            with Browsers(port, browsers, every_s) as looking:
                time.sleep(SPELL_S)
            time.sleep(max(moments_s[-1] + 2 * SPELL_S - time.monotonic(), 0.0))
            took_s += looking.took_s
            failures += looking.failures
    used_s = cpu_seconds(watching.pid) - cpu_s
    if failures:
        raise RocketeerError(f"pages failed: {', '.join(sorted(set(failures))[:5])}")
    terminal.print(
        f"  {len(took_s)} refreshes, {statistics.median(took_s) * 1000:.0f} ms each (median), {used_s:.1f} s of CPU "
        "in the console"
    )
    return typical(lost_shares(load.meter.samples, moments_s, SPELL_S)), load.measured


def cost_of_looking(server: BenchServer, port: int, browsers: int, every_s: float) -> float:
    """The share of a core that a broker with nothing else to do spends on the browsers."""
    assert server.pid is not None, "it was started here"
    wait_until_settled([server])
    before_s, began_s = cpu_seconds(server.pid), time.monotonic()
    with Browsers(port, browsers, every_s):
        time.sleep(_LOOKING_S)
    return (cpu_seconds(server.pid) - before_s) / (time.monotonic() - began_s)


def page_times(port: int) -> dict[str, float]:
    """Milliseconds of the first page a console ever showed, and of those after it; of an idle broker."""
    took_ms: list[float] = []
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    for _ in range(_LOOKS + 1):
        began_s = time.monotonic()
        if _look(connection, "/") != 200:
            raise RocketeerError("the first page failed")
        took_ms.append((time.monotonic() - began_s) * 1000)
    return {"first_ms": round(took_ms[0], 1), "median_ms": round(statistics.median(took_ms[1:]), 1)}


def _serves(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
