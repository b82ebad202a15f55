"""A small share of `make fuzz`, always the same: recorded requests with changed parts break nothing."""

from pathlib import Path

import pytest

from support.fuzz import fuzz
from support.fuzz_sessions import SHARES, session_of


def test_a_session_follows_from_seed_and_number_alone() -> None:
    ports = tuple(SHARES)
    sessions = [session_of("s", number, ports) for number in range(200)]
    assert sessions == [session_of("s", number, ports) for number in range(200)]
    assert sessions[3] != sessions[4]
    assert {session.to for session in sessions} == set(ports)


@pytest.mark.timeout(240)
def test_mutated_requests_of_every_code_break_nothing(tmp_path: Path) -> None:
    # By frames, not by time: however long the honest clients take to start, the same sessions are played.
    run = fuzz(tmp_path, "share", seconds=180, frames_max=7_500, passes=3)
    assert run.frames > 500
    assert len(run.pass_memory_mb) == 3
