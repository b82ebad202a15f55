"""At half of its maximum: how many of a broker's replies come within a millisecond.

The maximum is what it reaches with the plan's connections and requests in flight. With fewer in flight it is less:
the number that comes nearest to half of it, in the same round, is what counts. Beside that half of the maximum is
sent at fixed times, to the broker and in turns to a server that stores nothing: there every pause of the machine
counts too.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rocketeer.bench.loadgen import bare_server, run_loadgen
from rocketeer.bench.session import BenchServer, LoadPlan, wait_until_settled

_FIXED_IN_FLIGHT = 64  # more than are ever under way unless the server stalls


@dataclass(frozen=True, kw_only=True)
class HalfLoad:
    """Messages a second, and shares of replies within 1 ms."""

    most: float
    in_flight: int
    rate: float
    within_1ms: float
    at_fixed_times: float
    bare_at_fixed_times: float


def half_load(
    program: Path, build: Path, server: BenchServer, plan: LoadPlan, say: Callable[[str], None]
) -> HalfLoad:
    mosts, halves = [], []
    for _ in range(plan.rounds):
        mosts.append(float(_send(program, server, plan)["messages_per_s"]))
        halves.append(_nearest(program, server, plan, mosts[-1] / 2))
        say(
            f"  {plan.connections} x {plan.in_flight}: {mosts[-1]:,.0f}/s; x {halves[-1]['window']}:"
            f" {halves[-1]['messages_per_s']:,.0f}/s, {halves[-1]['under_1ms']:.2%} within 1 ms"
        )
    most = statistics.median(mosts)
    fixed = replace(plan, in_flight=_FIXED_IN_FLIGHT, rate=most / 2)
    ours, bares = [], []
    with bare_server(build) as bare:
        for _ in range(plan.rounds):
            ours.append(float(_send(program, server, fixed)["under_1ms"]))
            bares.append(float(_send(program, bare, fixed)["under_1ms"]))
            say(f"  {most / 2:,.0f}/s at fixed times: {ours[-1]:.2%}, {bare.label}: {bares[-1]:.2%}")
    return HalfLoad(
        most=most,
        in_flight=statistics.median_low(half["window"] for half in halves),
        rate=statistics.median(half["messages_per_s"] for half in halves),
        within_1ms=statistics.median(half["under_1ms"] for half in halves),
        at_fixed_times=statistics.median(ours),
        bare_at_fixed_times=statistics.median(bares),
    )


def _nearest(program: Path, server: BenchServer, plan: LoadPlan, wanted: float) -> dict[str, Any]:
    """The run whose rate is nearest to `wanted`, of those with more and more in flight."""
    tried = []
    for in_flight in range(1, plan.in_flight + 1):
        tried.append(_send(program, server, replace(plan, in_flight=in_flight)))
        if tried[-1]["messages_per_s"] >= wanted:
            break
    return min(tried, key=lambda figures: abs(figures["messages_per_s"] - wanted))


def _send(program: Path, server: BenchServer, plan: LoadPlan) -> dict[str, Any]:
    wait_until_settled([server])
    return run_loadgen(program, server, plan, "send")
