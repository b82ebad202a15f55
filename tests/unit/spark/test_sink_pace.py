"""The sink's pace: no faster than allowed, and lost time is not made up for."""

import time

import pytest

from rocketeer.spark.sink.rate_limit import rate_limited
from rocketeer.spark.sink.requests import Request


def request(rows: int) -> Request:
    return Request("T", None, False, b"x", list(range(rows)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """One number, which sleeping moves on."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_requests_leave_no_faster_than_the_rate(clock: list[float]) -> None:
    left: list[float] = []
    submit = rate_limited(lambda _: left.append(clock[0] - 100), 40)
    for _ in range(5):
        submit(request(4))
    assert left == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])


def test_lost_time_is_not_made_up_for(clock: list[float]) -> None:
    left: list[float] = []
    submit = rate_limited(lambda _: left.append(clock[0] - 100), 10)
    submit(request(5))
    clock[0] += 60
    for _ in range(3):
        submit(request(5))
    assert left == pytest.approx([0, 60, 60.5, 61])
