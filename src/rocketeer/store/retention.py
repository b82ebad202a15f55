"""What to delete, and when: the oldest log files, by age at set hours, earlier as the disk fills up.

Pure decisions: the time, the hour, the disk's fill and the files' ages are arguments. The store asks
`RetentionPlan.next` in its tick, drops the file named, and lets queues and index follow (`trim_to_log`).

    disk used   up to 75%   expired files go at the hours of deleteWhen
                over 75%    expired files go at any hour
                over 85%    the oldest files go even if not expired (cleanFileForciblyEnable)
                over 90%    and nothing is written until it is 90% or less again

Some messages are still waited for. Before the oldest file's time is over they are rolled forward
(`retention_guard.py`), and a file that still holds one stays: for good, or if the oldest files must go, for
`hang_ms_max`.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rocketeer.config import StoreConfig
from rocketeer.errors import ConfigError
from rocketeer.model.offsets import LogOffset

log = logging.getLogger(__name__)

HOUR_MS = 3_600_000
FIRST_ROUND_MS = 60_000  # after the start, as RocketMQ
MANUAL_ROUNDS = 20  # rounds that an operator's order to delete expired files lasts
ROLL_AHEAD_MS = HOUR_MS  # before a file expires, what is needed of it is rolled forward


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """When files go; RocketMQ's names for these stand in `StoreConfig`."""

    reserved_ms: int = 72 * HOUR_MS
    delete_hours: frozenset[int] = frozenset({4})
    used_percent_max: int = 75
    forced_percent: int = 85
    unwritable_percent: int = 90
    forced_enabled: bool = True
    files_per_round_max: int = 10
    delete_interval_ms: int = 100
    round_interval_ms: int = 10_000
    hang_ms_max: int = 120_000

    @classmethod
    def of(cls, config: StoreConfig) -> "RetentionRules":
        return cls(
            reserved_ms=config.reserved_hours * HOUR_MS,
            delete_hours=parse_hours(config.delete_when),
            used_percent_max=config.disk_max_used_percent,
            forced_percent=config.disk_clean_percent,
            unwritable_percent=config.disk_warning_percent,
            forced_enabled=config.clean_file_forcibly,
            delete_interval_ms=config.delete_interval_ms,
            round_interval_ms=config.clean_interval_ms,
            hang_ms_max=config.destroy_forcibly_ms,
        )


class SegmentAge(NamedTuple):
    """A log file as retention sees it; `in_use` while a reader holds bytes of it, `needed` while it must stay."""

    base: LogOffset
    modified_ms: int
    in_use: bool = False
    needed: bool = False


class RetentionDecision(NamedTuple):
    """What the hour and the disk allow."""

    expired: bool  # may files past their time go?
    forced: bool  # may the oldest go even before their time?
    writable: bool


class RetentionStep(NamedTuple):
    """What to do now: drop the oldest segment, if `drop` names it."""

    drop: LogOffset | None
    writable: bool


def parse_hours(delete_when: str) -> frozenset[int]:
    """deleteWhen: hours of the day, separated by semicolons.

    >>> sorted(parse_hours("04;16"))
    [4, 16]
    """
    words = [word.strip() for word in delete_when.split(";") if word.strip()]
    if not words or not all(word.isascii() and word.isdigit() and int(word) < 24 for word in words):
        raise ConfigError(f"deleteWhen: {delete_when!r} is not a list of hours like 04 or 04;16")
    return frozenset(map(int, words))


def decide_retention(
    rules: RetentionRules, *, hour: int, used_percent: int, ordered: bool = False
) -> RetentionDecision:
    """`used_percent` below 0 means unknown: as RocketMQ, expired files then go at any hour, no others do."""
    pressed = used_percent < 0 or used_percent > rules.used_percent_max
    forced = rules.forced_enabled and used_percent > rules.forced_percent
    return RetentionDecision(
        expired=ordered or pressed or forced or hour in rules.delete_hours,
        forced=forced,
        writable=used_percent <= rules.unwritable_percent,
    )


def may_drop_oldest(
    rules: RetentionRules, decision: RetentionDecision, segments: Sequence[SegmentAge], now_ms: int
) -> bool:
    """Whether the oldest file may go now; never the last one, which is being written."""
    if len(segments) < 2 or not decision.expired:
        return False
    return decision.forced or now_ms >= segments[0].modified_ms + rules.reserved_ms


def nears_its_end(
    rules: RetentionRules, segments: Sequence[SegmentAge], now_ms: int, used_percent: int
) -> bool:
    """Whether the oldest file may go soon, so that what is needed of it has to be rolled forward now."""
    if len(segments) < 2:
        return False
    ahead_ms = min(ROLL_AHEAD_MS, rules.reserved_ms // 10)
    pressed = rules.forced_enabled and used_percent > rules.forced_percent
    return pressed or now_ms >= segments[0].modified_ms + rules.reserved_ms - ahead_ms


def _is_due(at_ms: int, now_ms: int, ahead_ms_max: int) -> bool:
    """Whether `at_ms` is reached, or lies impossibly far ahead because the clock was set back."""
    return now_ms >= at_ms or at_ms - now_ms > ahead_ms_max


class RetentionPlan:
    """Says which file goes when: rounds every 10 s, of at most 10 files, 100 ms apart; one in use is waited for."""

    __slots__ = (
        "_files_left",
        "_hanging",
        "_next_drop_ms",
        "_next_round_ms",
        "_ordered",
        "_ordered_rounds",
        "_writable",
        "rules",
    )

    def __init__(self, rules: RetentionRules, start_ms: int) -> None:
        self.rules = rules
        self._next_round_ms = start_ms + FIRST_ROUND_MS
        self._next_drop_ms = 0
        self._files_left = 0
        self._ordered = False
        self._ordered_rounds = 0
        self._hanging: tuple[int, int] | None = None  # base, since ms
        self._writable = True

    def order(self, now_ms: int) -> None:
        """Delete expired files now, whatever the hour: an operator wants it."""
        self._ordered_rounds = MANUAL_ROUNDS
        self._next_round_ms = now_ms

    def next(
        self, now_ms: int, *, hour: int, used_percent: int, segments: Sequence[SegmentAge]
    ) -> RetentionStep:
        """Call it often; most calls say: nothing. The disk's fill is looked at anew each time, so that forced
        deletion ends as soon as there is room again."""
        rules = self.rules
        if _is_due(self._next_round_ms, now_ms, max(FIRST_ROUND_MS, rules.round_interval_ms)):
            self._next_round_ms = now_ms + rules.round_interval_ms
            self._files_left = rules.files_per_round_max
            self._ordered = self._ordered_rounds > 0
            self._ordered_rounds = max(0, self._ordered_rounds - 1)
        decision = decide_retention(rules, hour=hour, used_percent=used_percent, ordered=self._ordered)
        self._tell(decision, used_percent)
        due = self._files_left > 0 and _is_due(self._next_drop_ms, now_ms, rules.delete_interval_ms)
        if not due or not may_drop_oldest(rules, decision, segments, now_ms):
            return RetentionStep(None, decision.writable)
        oldest = segments[0]
        if oldest.needed and not decision.forced:
            return RetentionStep(None, decision.writable)
        if (oldest.in_use or oldest.needed) and not self._hangs_too_long(oldest.base, now_ms):
            return RetentionStep(None, decision.writable)
        if oldest.needed:
            log.error(
                "log file goes although messages in it are waited for base=%d: the disk is full", oldest.base
            )
        self._hanging = None
        self._files_left -= 1
        self._next_drop_ms = now_ms + rules.delete_interval_ms
        log.info(
            "log file goes base=%d forced=%s used_percent=%d", oldest.base, decision.forced, used_percent
        )
        return RetentionStep(oldest.base, decision.writable)

    def _hangs_too_long(self, base: LogOffset, now_ms: int) -> bool:
        if self._hanging is None or self._hanging[0] != base:
            self._hanging = (base, now_ms)
        return now_ms - self._hanging[1] >= self.rules.hang_ms_max

    def _tell(self, decision: RetentionDecision, used_percent: int) -> None:
        if decision.writable != self._writable:
            self._writable = decision.writable
            if decision.writable:
                log.info("disk has room again used_percent=%d: sends are accepted", used_percent)
            else:
                log.error("disk nearly full used_percent=%d: sends are refused, reads go on", used_percent)


class LogBoundQueue(Protocol):
    """A consume queue: gives up files below the log's minimum."""

    def raise_min(self, log_min: LogOffset) -> list[str]: ...


class LogBoundIndex(Protocol):
    def delete_below(self, log_min: LogOffset) -> list[str]: ...


def trim_to_log(
    log_min: LogOffset, queues: Iterable[LogBoundQueue], index: LogBoundIndex | None
) -> Iterator[list[str]]:
    """After the log lost its oldest file: a queue a step, then the index; yields paths to delete."""
    for queue in queues:
        yield queue.raise_min(log_min)
    if index is not None:
        yield index.delete_below(log_min)
