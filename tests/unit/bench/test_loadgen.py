"""The generator in C, the server that stores nothing, and what the bar of half the load makes of them."""

import shutil
from pathlib import Path

import pytest

from rocketeer.bench.half_load import half_load
from rocketeer.bench.loadgen import bare_server, compiled, run_loadgen
from rocketeer.bench.session import LoadPlan, fill, load_of, started, wait_until_settled

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
PLAN = LoadPlan(connections=4, in_flight=2, seconds=0.3, rounds=1, warmup_s=0.1)


def test_a_server_that_stores_nothing_answers_every_send(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    with bare_server(tmp_path) as bare:
        figures = run_loadgen(program, bare, PLAN, "send")
        assert (figures["refused"], figures["mismatched"]) == (0, 0)
        assert figures["messages_per_s"] > 100


def test_requests_at_fixed_times_are_as_many_as_asked_for(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    with bare_server(tmp_path) as bare:
        rate = 2000.0
        plan = LoadPlan(connections=4, in_flight=500, seconds=1.0, rounds=1, rate=rate)
        figures = run_loadgen(program, bare, plan, "send")
        # What a busy machine kept from leaving in time leaves later, and in the measured time or not.
        assert rate * 0.5 < figures["messages_per_s"] < rate * 2
        slow = run_loadgen(program, bare, LoadPlan(connections=1, in_flight=1, seconds=1.0, rate=2e6), "send")
        assert slow["p50_us"] > 100_000, "more than it can do: the waiting counts, from the time it was due"


def test_half_of_the_maximum(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    said: list[str] = []
    with started(("ours",), folder=tmp_path) as servers:
        half = half_load(program, tmp_path, servers[0], PLAN, said.append)
        wait_until_settled(servers)
        held = sum(load_of(servers[0], PLAN, "pull").queue_ends.values())
        fill(servers[0], PLAN, held + 1000)
        assert sum(load_of(servers[0], PLAN, "pull").queue_ends.values()) >= held + 1000
    assert 1 <= half.in_flight <= PLAN.in_flight
    assert half.most > 0
    assert half.rate > 0
    assert 0.0 < half.within_1ms <= 1.0
    assert "at fixed times" in said[-1]
    assert len(said) == 2
