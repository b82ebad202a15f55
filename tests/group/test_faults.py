"""The nemesis, for a minute or so: every promise holds through one fault of each sort (`make faults` runs all of them)."""

import logging
from pathlib import Path

import pytest

from faults.network import can_make_networks
from faults.running import Plan, run

FAULTS = (
    "kill the leader",
    "cut the leader off from everybody but clients",
    "set all clocks",
    "pause the leader",
    "kill etcd",
    "fill the leader's disk",
    "cut a follower off from everybody",
    "kill everything at once",
    "fail a follower's syncs",
    "slow the leader's syncs",
)


@pytest.mark.timeout(1200)
def test_nothing_promised_is_lost_whatever_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    if not can_make_networks():
        pytest.skip("network namespaces need root and `ip`")
    caplog.set_level(logging.CRITICAL, logger="rocketeer")  # that brokers cannot be reached is no news here
    outcome = run(
        tmp_path, Plan(seed=16, seconds=50, faults=FAULTS, lasts_s=(0.5, 2.0, 4.0), pauses_s=(0.5, 1.5))
    )
    assert outcome.problems == []
    print(outcome.ledger, {name: strikes.count for name, strikes in outcome.faults.items()})
