"""At half of its maximum: how many of a broker's replies come within a millisecond.

The maximum is what it reaches with the plan's connections and requests in flight. With fewer in flight it is less:
the number that comes nearest to half of it is what is measured. Beside that half of the maximum is sent at fixed
times, to the broker and in turns to a server that stores nothing: there every pause of the machine counts too.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rocketeer.bench.loadgen import bare_server, run_loadgen
from rocketeer.bench.session import Plan, Server, rest

_FIXED_IN_FLIGHT = 64  # more than are ever under way unless the server stalls
_TRY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class HalfLoad:
    """Messages a second, and shares of replies within 1 ms."""

    most: float
    in_flight: int
    rate: float
    within_1ms: float
    at_fixed_times: float
    bare_at_fixed_times: float


def half_load(program: Path, build: Path, server: Server, plan: Plan, say: Callable[[str], None]) -> HalfLoad:
    most = statistics.median(_rate(program, server, plan) for _ in range(plan.rounds))
    say(f"  loadgen send, {plan.connections} x {plan.in_flight}: {most:,.0f}/s")
    fewer = _half_of(program, server, plan, most)
    shares, rates = [], []
    for _ in range(plan.rounds):
        rest([server])
        figures = run_loadgen(program, server, fewer, "send")
        shares.append(figures["under_1ms"])
        rates.append(figures["messages_per_s"])
        say(f"  {fewer.connections} x {fewer.in_flight}: {rates[-1]:,.0f}/s, {shares[-1]:.2%} within 1 ms")
    fixed = replace(plan, in_flight=_FIXED_IN_FLIGHT, rate=most / 2)
    ours, bares = [], []
    with bare_server(build) as bare:
        for _ in range(plan.rounds):
            rest([server])
            ours.append(run_loadgen(program, server, fixed, "send")["under_1ms"])
            bares.append(run_loadgen(program, bare, fixed, "send")["under_1ms"])
            say(f"  {most / 2:,.0f}/s at fixed times: {ours[-1]:.2%}, {bare.label}: {bares[-1]:.2%}")
    return HalfLoad(
        most=most,
        in_flight=fewer.in_flight,
        rate=statistics.median(rates),
        within_1ms=statistics.median(shares),
        at_fixed_times=statistics.median(ours),
        bare_at_fixed_times=statistics.median(bares),
    )


def _half_of(program: Path, server: Server, plan: Plan, most: float) -> Plan:
    tried: dict[int, float] = {}
    for in_flight in range(1, plan.in_flight + 1):
        short = replace(plan, in_flight=in_flight, seconds=min(plan.seconds, _TRY_S))
        tried[in_flight] = _rate(program, server, short)
        if tried[in_flight] >= most / 2:
            break
    return replace(plan, in_flight=min(tried, key=lambda count: abs(tried[count] - most / 2)))


def _rate(program: Path, server: Server, plan: Plan) -> float:
    rest([server])
    return float(run_loadgen(program, server, plan, "send")["messages_per_s"])
