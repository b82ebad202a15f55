"""Percentiles of merged counts."""

from rocketeer.bench.histogram import FAST_US, Latencies, LatencyCounts


def counted(*values: int) -> dict[int, int]:
    counts = LatencyCounts()
    for us in values:
        counts.add(us)
    return counts.sparse()


def test_percentiles_do_not_depend_on_how_processes_shared_the_work() -> None:
    values = [*range(1, 1001), FAST_US + 7]
    together = Latencies([counted(*values)])
    apart = Latencies([counted(*values[::2]), counted(*values[1::2])])
    for share in (0.5, 0.99, 0.999, 1.0):
        assert together.percentile_us(share) == apart.percentile_us(share)
    assert together.count == 1001


def test_a_percentile_is_what_that_share_did_not_exceed() -> None:
    latencies = Latencies([counted(*range(1, 101))])
    assert latencies.percentile_us(0.5) == 50
    assert latencies.percentile_us(0.99) == 99
    assert latencies.percentile_us(1.0) == 100


def test_slow_replies_are_counted_exactly() -> None:
    latencies = Latencies([counted(10, 3_000_000)])
    assert latencies.percentile_us(1.0) == 3_000_000
    assert latencies.share_within(1000) == 0.5


def test_forgetting_the_warm_up_keeps_the_array_a_loop_holds() -> None:
    counts = LatencyCounts()
    held = counts.by_us
    counts.add(5)
    counts.add(FAST_US)
    counts.clear()
    held[6] += 1
    assert counts.sparse() == {6: 1}


def test_nothing_measured_is_zero_not_an_error() -> None:
    nothing = Latencies([])
    assert nothing.percentile_us(0.99) == 0
    assert nothing.share_within(1000) == 0.0
