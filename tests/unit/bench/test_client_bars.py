"""How the rows of the client benchmark become bars: medians of rounds, and the other library's best way counts."""

from rocketeer.bench.clients.bars import Ratio, client_bars, ratios
from rocketeer.bench.clients.job import ClientJob, Library, Mode, Stopwatch
from rocketeer.bench.clients.memory import SAMPLES, Sample, growth_bytes
from rocketeer.bench.clients.rows import ClientRun


def run(
    row: str, library: Library, mode: Mode, rate: float, *, acknowledged: bool = False, p50_us: int = 0
) -> ClientRun:
    return ClientRun(row, library, mode, acknowledged, int(rate), rate, 10.0, p50_us, p50_us, 0)


RUNS = [
    run("async send x 64", "ours", "async", 900, acknowledged=True),
    run("async send x 64", "ours", "async", 1000, acknowledged=True),
    run("async send x 64", "ours", "async", 5000, acknowledged=True),
    run("sync send", "cpp", "sync", 100, acknowledged=True, p50_us=500),
    run("sync send, 16 threads", "cpp", "threads", 400, acknowledged=True),
    run("batch of 32", "cpp", "batch", 9000),
    run("sync send", "ours", "sync", 300, acknowledged=True, p50_us=250),
    run("push, empty listener", "ours", "push", 3000),
    run("push, empty coroutine", "ours", "push", 9000),
    run("push, empty listener", "cpp", "push", 1000),
    run("push, one thread", "cpp", "push", 2000),
]


def test_a_bar_compares_medians_with_the_others_fastest_way() -> None:
    fast, push, sync, cpu = client_bars(RUNS)
    assert (fast.ours, fast.other, fast.value, fast.passed) == (1000, 400, 2.5, False)
    assert (push.ours, push.other, push.passed) == (3000, 2000, False), "threads against threads"
    assert (sync.ours, sync.other, sync.value, sync.passed) == (250, 500, 0.5, False)
    assert (cpu.value, cpu.wanted, cpu.passed) == (10.0, 12.0, True)


def test_our_own_bars_need_no_other_library() -> None:
    runs = [
        run("async send, 100,000 gathered", "ours", "gather", 50_000),
        run("async send, 100,000 gathered, uvloop", "ours", "gather", 70_000),
        run("push, empty listener of lists of 32", "ours", "push", 240_000),
    ]
    assert [(bar.value, bar.passed) for bar in client_bars(runs)] == [(70_000, True), (240_000, False)]


def test_without_the_other_library_nothing_is_compared_with_it() -> None:
    ours = [each for each in RUNS if each.library == "ours"]
    assert [bar.other for bar in client_bars(ours)] == [None]
    assert ratios(ours) == {}
    assert ratios(RUNS) == {"sync send": Ratio(3.0, 1.0), "push, empty listener": Ratio(3.0, 1.0)}


def test_the_warm_up_is_not_counted() -> None:
    job = ClientJob(library="ours", mode="sync", namesrv="", topic="", group="", warmup_s=1.0, seconds=2.0)
    watch = Stopwatch(job)
    start_s = watch.end_s - 3.0
    assert not watch.lap(start_s, start_s + 0.5, 1)
    assert not watch.lap(start_s, start_s + 1.5, 2)
    assert not watch.lap(start_s + 1.5, start_s + 1.501, 3)
    assert watch.lap(start_s + 1.5, start_s + 3.5, 4)
    figures = watch.figures(4)
    assert (figures.messages, figures.sent) == (2, 4)
    assert 999 <= figures.p50_us <= 1001


def test_growth_counts_from_the_warm_consumer() -> None:
    sizes = [10, 20, 30, 50, *[51] * (SAMPLES - 5), 50]
    samples = [Sample(at, 0.0, size) for at, size in enumerate(sizes)]
    assert growth_bytes(samples) == 1
