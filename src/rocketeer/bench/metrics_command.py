"""`rocketeer bench metrics`: what being scraped costs a broker that is busy, with many topics and groups."""

import statistics
import time
import urllib.request
from dataclasses import replace
from typing import Annotated, Any

import typer

from rocketeer.bench import report
from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.compare import console, judge
from rocketeer.bench.control import Control
from rocketeer.bench.meter import STEADY_S, SteadyLoad, lost_shares, typical
from rocketeer.bench.options import Folder, Json, QueuesOption
from rocketeer.bench.processes import cpu_seconds
from rocketeer.bench.run import Measured
from rocketeer.bench.session import BenchServer, LoadPlan, prepare, run_send, started, wait_until_settled
from rocketeer.client.plans.pull import PullSettings, pull
from rocketeer.config.ports import free_ports
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.subscription import Subscription

LOST_MAX = 0.02
"""Largest share of the throughput that being scraped may cost."""
_TOPICS_A_GROUP = 2
_LOOKS = 20
SPAN_S = 1.0
"""A scrape under load is over by then."""


class Scraper:
    """Asks for the page, as Prometheus does."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.took_s: list[float] = []
        self.page_bytes = 0

    def scrape(self) -> None:
        began_s = time.monotonic()
        with urllib.request.urlopen(self._url, timeout=60) as answer:  # noqa: S310 our own
            self.page_bytes = len(answer.read())
        self.took_s.append(time.monotonic() - began_s)


def metrics(
    topics: Annotated[int, typer.Option(min=1, max=9999, help="Topics.")] = 1_000,
    groups: Annotated[int, typer.Option(min=1, help="Consumer groups, on two topics each.")] = 2_500,
    queues: QueuesOption = 8,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two scrapes of a Prometheus.")] = 15,
    scrapes: Annotated[
        int, typer.Option(min=0, help="While messages are sent, 3 s apart; 0: only what a scrape costs.")
    ] = 12,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Sends to one topic while the figures of many are scraped: what a scrape costs of the throughput beside it.

    Each scrape is compared with the seconds before and after it in the same load; what one costs is then spread
    over the time between two scrapes. Exit code 1 when being scraped costs more than it may, by the CPU time of a
    scrape or by the throughput.
    """
    about = report.machine()
    port, _ = free_ports()
    conf = {"metricsExporterType": "PROM", "metricsPromExporterPort": port}
    url = f"http://127.0.0.1:{port}/metrics"
    runs: list[Measured] = []
    with started(("ours",), folder=folder, conf=conf) as servers:
        (server,) = servers
        fill(server, LoadPlan(queues=queues, topics=topics), groups)
        scrape = cost_of_a_scrape(server, url)
        share = scrape["cpu_ms"] / 1000 / every
        figures: dict[str, Any] = {"scrape": scrape, "cpu_share": share}
        console.print(
            f"  a scrape takes {scrape['cpu_ms']} ms of the broker's CPU for {scrape['page_bytes']:,} bytes: "
            f"every {every:g} s that is {share:.2%} of a core"
        )
        if scrapes:
            figures["lost"], run = cost_under_load(server, LoadPlan(queues=queues), url, scrapes, every)
            runs.append(run)
    bars = [_share_bar("CPU time of scrapes, of a core", share)]
    if runs:
        report.print_runs(runs, console)
        bars.append(_share_bar("throughput lost while being scraped", figures["lost"]))
    judge(about, runs, bars, json, metrics={**figures, "passed": all(bar.passed for bar in bars)})


def _share_bar(name: str, share: float) -> BarResult:
    return BarResult.limit(name, 100 * share, 100 * LOST_MAX, "%")


def cost_under_load(
    server: BenchServer, plan: LoadPlan, url: str, scrapes: int, every_s: float
) -> tuple[float, Measured]:
    """The share of the throughput that a scrape every so often costs, and the load it was measured in."""
    run_send(server, plan, "warm-up")
    wait_until_settled([server])
    scraper = Scraper(url)
    moments_s: list[float] = []
    seconds = 3 * SPAN_S * scrapes + STEADY_S + SPAN_S
    with SteadyLoad(server, replace(plan, seconds=seconds), "send, scraped every 3 s") as load:
        for _ in range(scrapes):
            time.sleep(SPAN_S)
            moments_s.append(time.monotonic())
            scraper.scrape()
            time.sleep(max(moments_s[-1] + 2 * SPAN_S - time.monotonic(), 0.0))
    slowest_s = max(scraper.took_s)
    if slowest_s > SPAN_S:
        console.print(
            f"  a scrape took {slowest_s:.2f} s: its cost is only in part within the {SPAN_S:g} s looked at"
        )
    lost = typical(lost_shares(load.meter.samples, moments_s, SPAN_S))
    console.print(
        f"  {scrapes} scrapes under load, {statistics.median(scraper.took_s) * 1000:.0f} ms each (median); in the "
        f"second of a scrape {lost:.1%} less was stored than in those beside it"
    )
    return lost * SPAN_S / every_s, load.measured


def fill(server: BenchServer, plan: LoadPlan, groups: int) -> None:
    """Messages in every topic, and groups that have got and consumed some of them."""
    target = prepare(server, plan)
    run_send(server, LoadPlan(queues=plan.queues, topics=plan.topics, seconds=2.0), "fill")
    with Control(server.address, timeout_s=60) as control:
        for group in range(groups):
            for number in range(_TOPICS_A_GROUP):
                topic = target.topics[(group * (6 * number + 1) + number) % len(target.topics)]
                for queue_id in range(plan.queues):
                    _consume(control, f"bench-group-{group:04d}", topic, queue_id)
    console.print(f"  {plan.topics:,} topics of {plan.queues} queues, {groups:,} groups")


def _consume(control: Control, group: str, topic: str, queue_id: int) -> None:
    """Get the queue's first message, and commit it."""
    settings, queue = PullSettings(group, max_count=1, hold_s=0.0), control.queue(topic, queue_id)
    everything, consumed = Subscription(topic), QueueOffset(1)
    control.run(pull(settings, control.cluster, queue, QueueOffset(0), everything, commit_offset=consumed))


def cost_of_a_scrape(server: BenchServer, url: str) -> dict[str, Any]:
    """CPU time of the broker for one page, and how large it is; of an idle broker."""
    scraper = Scraper(url)
    scraper.scrape()
    assert server.pid is not None, "it was started here"
    wait_until_settled([server])
    before_s = cpu_seconds(server.pid)
    for _ in range(_LOOKS):
        scraper.scrape()
    cpu_ms = (cpu_seconds(server.pid) - before_s) / _LOOKS * 1000
    return {
        "cpu_ms": round(cpu_ms, 1),
        "median_ms": round(statistics.median(scraper.took_s) * 1000, 1),
        "page_bytes": scraper.page_bytes,
    }
