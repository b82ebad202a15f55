"""What our client must reach beside PyPI's `rocketmq`: ratios of medians over the rounds of one run."""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.clients.rows import PUSH_BATCHES, ClientRun

ASYNC_WANTED: Final = 8.0
ASYNC_CPU_US_WANTED: Final = 12.0
GATHERED_WANTED: Final = 60_000.0
PUSH_WANTED: Final = 2.0
PUSH_BATCHES_WANTED: Final = 250_000.0
SYNC_P50_WANTED: Final = 0.43
"""What it was beside the same library before automatic batching (at commit 7fbf20a); it may not get slower."""


def client_bars(runs: Sequence[ClientRun]) -> list[BarResult]:
    """The bars both libraries were measured for. Where a library has several ways, its fastest one counts."""
    found = [
        _against(
            "async send x 64 against the fastest acknowledged send: messages/s",
            _best(runs, "ours", lambda run: run.mode == "async", _rate),
            _best(runs, "cpp", lambda run: run.acknowledged, _rate),
            ASYNC_WANTED,
        ),
        _against(
            "push consumption, plain listener: messages/s",
            _best(runs, "ours", lambda run: run.row == "push, empty listener", _rate),
            _best(runs, "cpp", lambda run: run.mode == "push", _rate),
            PUSH_WANTED,
        ),
        _against(
            "sync send: p50 in us",
            _best(runs, "ours", lambda run: run.mode == "sync", _p50),
            _best(runs, "cpp", lambda run: run.mode == "sync", _p50),
            SYNC_P50_WANTED,
            at_least=False,
        ),
        _bar(
            "100,000 sends gathered",
            _best(runs, "ours", lambda run: run.mode == "gather", _rate),
            GATHERED_WANTED,
            "msg/s",
        ),
        _bar(
            "push, lists of 32", _best(runs, "ours", _in(PUSH_BATCHES), _rate), PUSH_BATCHES_WANTED, "msg/s"
        ),
        _bar(
            "async send x 64: CPU of the client for a send",
            _least(runs, "ours", lambda run: run.mode == "async", _cpu),
            ASYNC_CPU_US_WANTED,
            "us",
            at_least=False,
        ),
    ]
    return [bar for bar in found if bar is not None]


def _in(row: str) -> Callable[[ClientRun], bool]:
    return lambda run: run.row == row


def _bar(name: str, value: float, wanted: float, unit: str, *, at_least: bool = True) -> BarResult | None:
    """One that no other library is measured for."""
    return BarResult.limit(name, value, wanted, unit, at_least=at_least) if value else None


def _against(
    name: str, ours: float, other: float, wanted: float, *, at_least: bool = True
) -> BarResult | None:
    return BarResult.ratio(name, ours, other, wanted, at_least=at_least) if ours and other else None


class Ratio(msgspec.Struct, frozen=True):
    """Ours by theirs. What a busy machine does to a rate it hardly does to the CPU time of a message."""

    messages_per_s: float
    cpu: float


def ratios(runs: Sequence[ClientRun]) -> dict[str, Ratio]:
    """Ratios of the rows that both libraries have."""
    found: dict[str, Ratio] = {}
    for row in dict.fromkeys(run.row for run in runs):
        same = [run for run in runs if run.row == row]
        rates = [_best(same, library, _any, _rate) for library in ("ours", "cpp")]
        costs = [_best(same, library, _any, _cpu) for library in ("ours", "cpp")]
        if all(rates) and all(costs):
            found[row] = Ratio(rates[0] / rates[1], costs[0] / costs[1])
    return found


def _rate(run: ClientRun) -> float:
    return run.messages_per_s


def _p50(run: ClientRun) -> float:
    return run.p50_us


def _cpu(run: ClientRun) -> float:
    return run.cpu_us_per_message


def _any(run: ClientRun) -> bool:
    return True


def _best(
    runs: Sequence[ClientRun],
    library: str,
    which: Callable[[ClientRun], bool],
    value: Callable[[ClientRun], float],
) -> float:
    """The largest of the rows' medians; 0 when nothing was measured."""
    return max(_medians(runs, library, which, value), default=0.0)


def _least(
    runs: Sequence[ClientRun],
    library: str,
    which: Callable[[ClientRun], bool],
    value: Callable[[ClientRun], float],
) -> float:
    """The smallest of the rows' medians; 0 when nothing was measured."""
    return min(_medians(runs, library, which, value), default=0.0)


def _medians(
    runs: Sequence[ClientRun],
    library: str,
    which: Callable[[ClientRun], bool],
    value: Callable[[ClientRun], float],
) -> list[float]:
    chosen = [run for run in runs if run.library == library and which(run)]
    return [
        statistics.median(value(run) for run in chosen if run.row == row)
        for row in {run.row for run in chosen}
    ]
