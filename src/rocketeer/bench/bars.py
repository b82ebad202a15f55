"""The bars a release has to pass: our broker on one core beside Apache's with the whole machine, in one run.

Where both brokers are compared, both generators measure them and the less favourable ratio counts: ours shares
two cores with Apache's broker but not with our own, and costs more CPU than the one in C.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rocketeer.bench.backlog import Say
from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.half_load import half_load
from rocketeer.bench.loadgen import run_loadgen
from rocketeer.bench.pauses import PAUSE_S, paused_share
from rocketeer.bench.processes import anonymous_bytes
from rocketeer.bench.run import Measured
from rocketeer.bench.session import (
    BenchServer,
    Flush,
    LoadPlan,
    fill,
    run_batch,
    run_pull,
    run_send,
    started,
    wait_until_settled,
    warm_up,
)

IDLE_BYTES_MAX = 150_000_000
_IDLE_S = 5.0
_FILES_MAX = 1024

Measure = Callable[[BenchServer, LoadPlan, str], Measured]


class Bars:
    """Runs the bars one after the other and keeps every run for the report."""

    def __init__(
        self, plan: LoadPlan, *, folder: Path | None, say: Say, loadgen: Path | None, with_apache: bool = True
    ) -> None:
        self._plan = plan
        self._loadgen = loadgen
        self._folder = folder
        self._say = say
        self._with_apache = with_apache
        self.runs: list[Measured] = []

    def run(self) -> Iterator[BarResult]:
        """Every bar as soon as it is known."""
        yield self._idle()
        if self._with_apache:
            yield from self._side_by_side("async")
            yield from self._side_by_side("sync")
        yield self._half_load()
        yield self._many_topics()

    # --- beside Apache's ---------------------------------------------------------------------

    def _side_by_side(self, flush: Flush) -> Iterator[BarResult]:
        self._say(f"starting both brokers, {flush.upper()}_FLUSH")
        with started(("ours", "apache"), flush=flush, folder=self._folder) as servers:
            if flush == "sync":
                yield self._rates(servers, "sync-flush send", run_send, self._plan, wanted=1.5)
                return
            yield self._rates(servers, "send", run_send, self._plan, wanted=2.5)
            yield self._latency(servers, replace(self._plan, connections=1, in_flight=1, processes=1))
            yield self._rates(servers, "batch of 32", run_batch, self._plan, wanted=1.5)
        self._say("starting both brokers anew: the same messages in both")
        with started(("ours", "apache"), flush=flush, folder=self._folder) as servers:
            for server in servers:
                fill(server, self._plan)
            yield self._rates(servers, "pull of 32", run_pull, self._plan, wanted=1.0)

    def _rounds(
        self, servers: list[BenchServer], mode: str, measure: Measure, plan: LoadPlan
    ) -> list[list[Measured]]:
        """Alternating rounds, so that whatever else the machine does hits both."""
        if len(servers) > 1:
            warm_up(servers, plan, lambda server, plan: measure(server, plan, mode))
        found: list[list[Measured]] = [[] for _ in servers]
        for number in range(plan.rounds):
            for index, server in enumerate(servers):
                wait_until_settled(servers)
                measured = measure(server, plan, mode)
                self._say(
                    f"{mode} {number + 1}/{plan.rounds} {server.label}: {measured.messages_per_s:,.0f}/s"
                )
                found[index].append(measured)
        self.runs += [run for runs in found for run in runs]
        return found

    def _rates(
        self, servers: list[BenchServer], mode: str, measure: Measure, plan: LoadPlan, *, wanted: float
    ) -> BarResult:
        rates = [
            statistics.median(run.messages_per_s for run in runs)
            for runs in self._rounds(servers, mode, measure, plan)
        ]
        kind = "batch" if measure is run_batch else "pull" if measure is run_pull else "send"
        others = self._by_loadgen(servers, plan, kind, "messages_per_s")
        name = f"{mode}, {plan.connections} x {plan.in_flight}: messages/s against Apache's"
        return _worse(BarResult.ratio(name, rates[0], rates[1], wanted), others)

    def _latency(self, servers: list[BenchServer], plan: LoadPlan) -> BarResult:
        p50s = [
            statistics.median(run.p50_us for run in runs)
            for runs in self._rounds(servers, "send", run_send, plan)
        ]
        others = self._by_loadgen(servers, plan, "send", "p50_us")
        bar = BarResult.ratio("send, 1 x 1: p50 against Apache's", p50s[0], p50s[1], 1.0, at_least=False)
        return _worse(bar, others)

    def _by_loadgen(
        self, servers: list[BenchServer], plan: LoadPlan, kind: str, figure: str
    ) -> list[float] | None:
        """The medians of one figure by tools/loadgen.c, in alternating rounds too; None without a C compiler."""
        if self._loadgen is None:
            return None
        found: list[list[float]] = [[] for _ in servers]
        for _ in range(plan.rounds):
            for index, server in enumerate(servers):
                wait_until_settled(servers)
                figures = run_loadgen(self._loadgen, server, plan, kind)
                self._say(f"  loadgen {kind} {server.label}: {figure} {figures[figure]:,}")
                found[index].append(figures[figure])
        return [statistics.median(values) for values in found]

    # --- alone -------------------------------------------------------------------------------

    def _idle(self) -> BarResult:
        self._say(f"an idle broker for {_IDLE_S:g} s")
        with started(("ours",), folder=self._folder) as servers:
            time.sleep(_IDLE_S)
            assert servers[0].pid is not None
            anonymous = anonymous_bytes(servers[0].pid)
        name = "anonymous memory of an idle broker"
        return BarResult.limit(name, anonymous / 1e6, IDLE_BYTES_MAX / 1e6, "MB", ours=anonymous)

    def _half_load(self) -> BarResult:
        with started(("ours",), folder=self._folder) as servers:
            warm_up(servers, self._plan)
            if self._loadgen is None:
                return self._half_load_at_fixed_times(servers)
            half = half_load(self._loadgen, self._loadgen.parent, servers[0], self._plan, self._say)
        return _within_1ms(
            f"{half.rate:,.0f}/s of {half.most:,.0f}/s",
            half.within_1ms,
            f"{self._plan.connections} x {half.in_flight} in flight; at fixed times {half.at_fixed_times:.2%},"
            f" and {half.bare_at_fixed_times:.2%} from a server that stores nothing; {_pauses()}",
        )

    def _half_load_at_fixed_times(self, servers: list[BenchServer]) -> BarResult:
        """Without a C compiler: only requests that leave at times fixed beforehand."""
        most = statistics.median(
            run.messages_per_s for run in self._rounds(servers, "send", run_send, self._plan)[0]
        )
        plan = replace(self._plan, rate=most / 2)
        shares = [run.within_1ms for run in self._rounds(servers, "half load", run_send, plan)[0]]
        return _within_1ms(f"{most / 2:,.0f}/s at fixed times", statistics.median(shares), _pauses())

    def _many_topics(self) -> BarResult:
        one = replace(self._plan, queues=8)
        many = replace(one, topics=1000)
        with started(("ours",), files_max=_FILES_MAX, folder=self._folder) as servers:
            self._say("making the queues of 1,000 topics")
            warm_up(servers, many)
            rates: dict[str, list[float]] = {"1 topic": [], "1,000 topics": []}
            for _ in range(2 * self._plan.rounds):  # a tenth is less than two rounds differ by themselves
                for mode, plan in (("1 topic", one), ("1,000 topics", many)):
                    wait_until_settled(servers)
                    run = run_send(servers[0], plan, mode)
                    self._say(f"{mode} x 8 queues: {run.messages_per_s:,.0f}/s")
                    rates[mode].append(run.messages_per_s)
                    self.runs.append(run)
        few, lots = (statistics.median(rates[mode]) for mode in ("1 topic", "1,000 topics"))
        return BarResult.ratio(
            f"1,000 topics x 8 queues against 1 topic, ulimit -n {_FILES_MAX}", lots, few, 0.9
        )


def _worse(bar: BarResult, others: list[float] | None) -> BarResult:
    """The bar with the ratio by the generator in C beside our own; the less favourable one counts."""
    ratios = {"bench": bar.value} | ({"loadgen": others[0] / others[1]} if others else {})
    worst = min if bar.at_least else max
    return replace(bar, value=worst(ratios.values()), by_generator=ratios)


def _within_1ms(load: str, share: float, note: str) -> BarResult:
    name = f"half of the maximum ({load}): replies within 1 ms"
    return BarResult.limit(name, 100 * share, 99.6, "%", ours=share, at_least=True, note=note)


def _pauses() -> str:
    return (
        f"the machine alone stood still for {paused_share():.2%} of the time ({PAUSE_S * 1000:g} ms and more)"
    )
