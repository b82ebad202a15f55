"""What something costs is found beside it, however the load drifts and whatever stalls once."""

import pytest

from rocketeer.bench.meter import Samples, lost_shares, typical
from rocketeer.errors import RocketeerError


def counted(rate_at: list[float], step_s: float = 0.1) -> Samples:
    """Samples of a load with these rates, one for each step."""
    samples, count = Samples(), 0.0
    samples.add(0.0, 0)
    for number, rate in enumerate(rate_at, 1):
        count += rate * step_s
        samples.add(number * step_s, int(count))
    return samples


def test_a_cost_is_found_in_a_load_that_grows_slower_all_the_time() -> None:
    rates = [1_000_000 * (1 - step / 1000) for step in range(300)]
    moments = [4.0, 10.0, 16.0, 22.0]
    for moment in moments:
        for step in range(int(moment * 10), int(moment * 10) + 10):
            rates[step] *= 0.8
    assert typical(lost_shares(counted(rates), moments, 1.0)) == pytest.approx(0.2, abs=0.01)


def test_one_stall_is_not_taken_for_a_cost() -> None:
    rates = [1_000_000.0] * 300
    rates[42:48] = [0.0] * 6
    assert typical(lost_shares(counted(rates), [4.0, 10.0, 16.0], 1.0)) == pytest.approx(0.0, abs=0.001)


def test_a_rate_lies_between_samples() -> None:
    samples = Samples()
    for moment, count in ((0.0, 0), (1.0, 100), (2.0, 400)):
        samples.add(moment, count)
    assert samples.rate(0.5, 1.5) == pytest.approx(200)
    assert samples.rate(0.0, 2.0) == pytest.approx(200)


def test_what_was_not_measured_is_an_error_and_no_zero() -> None:
    with pytest.raises(RocketeerError, match="nothing was sent"):
        typical(lost_shares(counted([0.0] * 100), [4.0], 1.0))
    with pytest.raises(RocketeerError, match="over before"):
        lost_shares(counted([1.0] * 30), [2.5], 1.0)
