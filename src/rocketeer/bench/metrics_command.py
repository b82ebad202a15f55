"""`rocketeer bench metrics`: what being scraped costs a broker that is busy, with many topics and groups."""

import statistics
import threading
import time
import urllib.request
from typing import Annotated, Any

import typer

from rocketeer.bench import report
from rocketeer.bench.bars import BarResult
from rocketeer.bench.compare import console, finish
from rocketeer.bench.control import Control
from rocketeer.bench.options import Folder, Json, Queues
from rocketeer.bench.processes import cpu_seconds
from rocketeer.bench.run import Measured
from rocketeer.bench.session import Plan, Server, prepare, rest, run_send, started
from rocketeer.config.ports import free_ports
from rocketeer.errors import RocketeerError
from rocketeer.protocol.codes import RequestCode

LOST_MAX = 0.02
"""Of the throughput: more than this being scraped may not cost."""
_TOPICS_A_GROUP = 2
_COMMIT_AND_SUBSCRIPTION = 1 | 4
_LOOKS = 20


class Scraper:
    """Asks for the page now and then, as Prometheus does."""

    def __init__(self, url: str, every_s: float) -> None:
        self._url = url
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.took_s: list[float] = []
        self.page_bytes = 0

    def __enter__(self) -> "Scraper":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0 if not self.took_s else self._every_s):
            self.scrape()

    def scrape(self) -> None:
        began_s = time.monotonic()
        with urllib.request.urlopen(self._url, timeout=60) as answer:  # noqa: S310 our own
            self.page_bytes = len(answer.read())
        self.took_s.append(time.monotonic() - began_s)


def metrics(
    topics: Annotated[int, typer.Option(min=1, max=9999, help="Topics.")] = 1_000,
    groups: Annotated[int, typer.Option(min=1, help="Consumer groups, on two topics each.")] = 2_500,
    queues: Queues = 8,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two scrapes.")] = 15,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of one run.")] = 15,
    rounds: Annotated[
        int, typer.Option(min=0, help="Of each kind, in turn; 0: only what a scrape costs.")
    ] = 3,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Sends to one topic while Prometheus scrapes the figures of many, against sends that nobody watches.

    Exit code 1 when being scraped costs more than it may, by the CPU time of a scrape or by that of a message.
    """
    about = report.machine()
    port, _ = free_ports()
    conf = {"metricsExporterType": "PROM", "metricsPromExporterPort": port}
    plan = Plan(queues=queues, seconds=seconds)
    url = f"http://127.0.0.1:{port}/metrics"
    runs: list[Measured] = []
    try:
        with started(("ours",), folder=folder, conf=conf) as servers:
            (server,) = servers
            fill(server, Plan(queues=queues, topics=topics), groups)
            scrape = cost_of_a_scrape(server, url)
            share = scrape["cpu_ms"] / 1000 / every
            figures: dict[str, Any] = {"scrape": scrape, "cpu_share": share}
            console.print(
                f"  a scrape takes {scrape['cpu_ms']} ms of the broker's CPU for {scrape['page_bytes']:,} bytes: "
                f"every {every:g} s that is {share:.2%} of a core"
            )
            if rounds:
                run_send(server, plan, "warm-up")
            for _ in range(rounds):
                rest(servers)
                runs.append(run_send(server, plan, "send"))
                rest(servers)
                with Scraper(url, every):
                    runs.append(run_send(server, plan, f"send, scraped every {every:g} s"))
        lost = lost_share(runs) if runs else 0.0
    except RocketeerError as why:
        console.print(f"[red]{why}[/red]")
        raise typer.Exit(1) from None
    bars = [_share_bar("CPU time of scrapes, of a core", share)]
    if runs:
        report.print_runs(runs, console)
        figures["lost"] = lost
        bars.append(_share_bar("throughput lost while being scraped", figures["lost"]))
    console.print(report.bars_table(bars))
    finish(about, runs, json, metrics={**figures, "passed": all(bar.passed for bar in bars)})
    if not all(bar.passed for bar in bars):
        raise typer.Exit(1)


def _share_bar(name: str, share: float) -> BarResult:
    return BarResult(
        name=name,
        ours=100 * share,
        other=None,
        value=100 * share,
        wanted=100 * LOST_MAX,
        at_least=False,
        unit="%",
    )


def lost_share(runs: list[Measured]) -> float:
    """Of the throughput, by what a message costs the broker: runs that nobody watched, and after each one that was.

    The broker's core is the bottleneck, so messages that cost a hundredth more are a hundredth fewer. What else
    runs on the machine changes a throughput by tens of percents and the least CPU time of a few runs hardly.
    """
    costs = [run.server_cpu_s_per_million or 0.0 for run in runs]
    if not all(costs):
        raise RocketeerError("the broker stored nothing in one of the runs: there is nothing to compare")
    return 1 - min(costs[::2]) / min(costs[1::2])


def fill(server: Server, plan: Plan, groups: int) -> None:
    """Messages in every topic, and groups that have got and consumed some of them."""
    target = prepare(server, plan)
    run_send(server, Plan(queues=plan.queues, topics=plan.topics, seconds=2.0), "fill")
    with Control(server.address, timeout_s=60) as control:
        for group in range(groups):
            for number in range(_TOPICS_A_GROUP):
                topic = target.topics[(group * (6 * number + 1) + number) % len(target.topics)]
                for queue_id in range(plan.queues):
                    _consume(control, f"bench-group-{group:04d}", topic, queue_id)
    console.print(f"  {plan.topics:,} topics of {plan.queues} queues, {groups:,} groups")


def _consume(control: Control, group: str, topic: str, queue_id: int) -> None:
    header = {
        "consumerGroup": group, "topic": topic, "queueId": queue_id, "queueOffset": 0, "maxMsgNums": 1,
        "sysFlag": _COMMIT_AND_SUBSCRIPTION, "commitOffset": queue_id % 2, "suspendTimeoutMillis": 0,
        "subscription": "*", "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip
    control.call(RequestCode.PULL_MESSAGE, {name: str(value) for name, value in header.items()})


def cost_of_a_scrape(server: Server, url: str) -> dict[str, Any]:
    """CPU time of the broker for one page, and how large it is; of an idle broker."""
    scraper = Scraper(url, 0)
    scraper.scrape()
    assert server.pid is not None, "it was started here"
    rest([server])
    before_s = cpu_seconds(server.pid)
    for _ in range(_LOOKS):
        scraper.scrape()
    cpu_ms = (cpu_seconds(server.pid) - before_s) / _LOOKS * 1000
    return {
        "cpu_ms": round(cpu_ms, 1),
        "median_ms": round(statistics.median(scraper.took_s) * 1000, 1),
        "page_bytes": scraper.page_bytes,
    }
