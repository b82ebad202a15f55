"""A message that is waited for outlives its log file: timers and delay levels longer than files are kept."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.feature import Feature
from rocketeer.broker.features.delay.admission import delay_admission_feature
from rocketeer.broker.features.delay.feature import delay_feature
from rocketeer.broker.features.timer.admission import TimerRules, timer_admission_feature
from rocketeer.broker.features.timer.feature import timer_feature
from rocketeer.broker.features.timer.recall import RecallRules
from rocketeer.broker.replay import replay_log
from rocketeer.broker.tables import NotifiedWhenSaved
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.config import BrokerConfig
from rocketeer.observe.counters import Counters
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.store import cleaning
from support.clock import ManualClock
from support.stores import bodies, make_store, message, read_queue

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOON_MS = int(time.mktime((2023, 11, 14, 12, 0, 0, 0, 0, -1))) * 1000
LEVELS = "1s 10d"
EVERY_HOUR = ";".join(map(str, range(24)))
KEPT_HOURS = 48


class Life:
    """A store with the two features that make messages wait, without a network; one life of it."""

    def __init__(self, folder: Path, clock: ManualClock, saved: dict[str, str], **config: Any) -> None:
        self.clock = clock
        self.store = make_store(
            folder, clock, reserved_hours=KEPT_HOURS, delete_when=EVERY_HOUR, delay_levels=LEVELS, **config
        )
        self.store.open()
        levels = DelayLevels.parse(LEVELS)
        rules = TimerRules(enabled=True, delay_ms_max=40 * DAY_MS, precision_ms=1)
        admitting = [timer_admission_feature(rules, clock), delay_admission_feature(levels)]
        self.writer = Writer(
            self.store,
            message_bytes_max=16 * 1024,
            counters=Counters(),
            rewrites=[each for feature in admitting for each in feature.rewrites],
        )
        self.features: list[Feature] = [
            timer_feature(
                RecallRules(enabled=True, broker_name="b", region="r"),
                folder=folder / "timer",
                flush_ms=1_000,
                store=self.store,
                topics=TopicTable(BrokerConfig(), clock),
                writer=self.writer,
                clock=clock,
                follows=False,
            ),
            delay_feature(levels, clock, self.store, self.writer, save_every_s=0.0),
        ]
        self.tables = [each for feature in self.features for each in feature.state]
        for table in self.tables:
            if table.file_name in saved:
                table.decode(saved[table.file_name])
            if isinstance(table, NotifiedWhenSaved):
                table.saved()  # as a broker does within its first seconds
        replay_log(self.store, [each for feature in self.features for each in feature.replays])
        self.store.dispatchers.extend(each for feature in self.features for each in feature.dispatchers)
        self.store.needs.extend(each for feature in self.features for each in feature.needs)
        self.store.rolls.extend(each for feature in self.features for each in feature.rolls)

    def send(self, body: bytes, **properties: str) -> None:
        outcome: list[WriteResult] = []
        self.writer.put(message(body, "T", properties=properties), outcome.append)
        assert outcome[0].stored, outcome

    def fill_a_file(self) -> None:
        """Others' messages until the log has one file more."""
        files = len(self.store.log.segments)
        while len(self.store.log.segments) == files:
            self.store.append(message(b"x" * 4000, "Others"))

    def pass_time(self, ms: int) -> None:
        """Let hours pass: files get the age they would have, the features deliver, retention works."""
        until_ms = self.clock.now_ms() + ms
        while self.clock.now_ms() < until_ms:
            for segment in self.store.log.segments:
                if segment.path not in self.aged:
                    self.aged.add(segment.path)
                    os.utime(segment.path, ns=(0, self.clock.now_ms() * 1_000_000))
            self.clock.advance(ms=min(4 * HOUR_MS, until_ms - self.clock.now_ms()))
            self.work()

    aged: set[Path]

    def work(self, steps: int = 10) -> None:
        for _ in range(steps):
            self.clock.advance(ms=1_100)
            self.store.tick()
            asyncio.run(self.serve())
            time.sleep(0.001)  # the worker threads have their part

    async def serve(self) -> None:
        for feature in self.features:
            for service in feature.services:
                if service.name.startswith("deliver"):
                    outcome = service.run()
                    if outcome is not None:
                        await outcome

    def save(self) -> dict[str, str]:
        """What the tables' files hold after a save."""
        return {table.file_name: table.encode() for table in self.tables}

    def until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < deadline_s, "it never came true"
            self.work(1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON_MS)


def begin(
    folder: Path, clock: ManualClock, aged: set[Path], saved: dict[str, str] | None = None, **config: Any
) -> Life:
    life = Life(folder, clock, saved or {}, **config)
    life.aged = aged
    return life


def test_timers_and_long_levels_outlive_their_files_and_come_once(tmp_path: Path, clock: ManualClock) -> None:
    aged: set[Path] = set()
    life = begin(tmp_path, clock, aged)
    start_ms = clock.now_ms()
    for n in range(30):
        life.send(b"timer %d" % n, TIMER_DELIVER_MS=str(start_ms + 9 * DAY_MS + n), UNIQ_KEY=f"U{n}")
        life.send(b"level %d" % n, DELAY="2")
    life.send(b"soon", TIMER_DELIVER_MS=str(start_ms + HOUR_MS))
    first = life.store.log.segments[0].base
    saved: dict[str, str] = {}
    for day in range(9):
        life.fill_a_file()
        life.pass_time(DAY_MS)
        if day % 3 == 1:
            saved = life.save()
        if day in (2, 5):  # restarts, with tables that are a day old
            life.store.close()
            life = begin(tmp_path, clock, aged, saved)
    life.until(lambda: life.store.log.min_offset > first)  # the file they were sent to is gone
    expected = {b"soon", *(b"timer %d" % n for n in range(30)), *(b"level %d" % n for n in range(30))}
    life.pass_time(2 * DAY_MS)
    life.until(lambda: len(bodies(life.store, "T")) + life.store.min_queue_offset("T", 0) >= 61)
    delivered = read_queue(life.store, "T")
    assert {each.body for each in delivered} | {b"soon"} == expected
    assert len(delivered) + life.store.min_queue_offset("T", 0) == 61, "each came once"
    by_body = {each.body: each for each in delivered}
    for n in range(30):
        assert by_body[b"timer %d" % n].store_ms >= start_ms + 9 * DAY_MS + n, "not before its time"
        assert int(by_body[b"timer %d" % n].properties_dict()["TIMER_ROLL_TIMES"]) >= 1
        assert by_body[b"level %d" % n].store_ms >= start_ms + 10 * DAY_MS
        assert by_body[b"level %d" % n].properties_dict()["DELAY"] == "2"
    life.store.close()
    life = begin(tmp_path, clock, aged, life.save())
    life.work()
    assert len(read_queue(life.store, "T")) == len(delivered), "a restart brings none again"
    life.store.close()


def test_a_recalled_or_delivered_message_does_not_hold_its_file(tmp_path: Path, clock: ManualClock) -> None:
    life = begin(tmp_path, clock, set())
    life.send(b"x", TIMER_DELIVER_MS=str(clock.now_ms() + 1))
    life.work()
    assert bodies(life.store, "T") == [b"x"]
    end = life.store.max_log_offset
    assert not life.store._guard.is_needed(end)
    life.store.close()


@pytest.mark.parametrize("used", [86, 93])
def test_a_filling_disk_rolls_forward_before_it_deletes(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, used: int
) -> None:
    """At 86% files go before their time; at 93% nobody may write, but what is waited for still moves."""
    percent = 50
    monkeypatch.setattr(cleaning, "used_percent", lambda path: percent)
    life = begin(tmp_path, clock, set(), disk_clean_percent=85, disk_warning_percent=90)
    due_ms = clock.now_ms() + DAY_MS
    life.send(b"waits", TIMER_DELIVER_MS=str(due_ms))
    first = life.store.log.min_offset
    life.fill_a_file()
    life.fill_a_file()
    percent = used
    life.until(lambda: life.store.log.min_offset > first)
    percent = 50
    life.until(lambda: life.store.refusal is None)
    clock.advance(ms=DAY_MS)
    life.until(lambda: bodies(life.store, "T") == [b"waits"])
    life.store.close()


def test_a_file_that_is_needed_stays_and_goes_when_it_is_not(tmp_path: Path, clock: ManualClock) -> None:
    aged: set[Path] = set()
    life = begin(tmp_path, clock, aged)
    life.fill_a_file()
    life.fill_a_file()
    needed: int | None = 0
    life.store.needs.append(lambda: needed)
    life.pass_time(4 * DAY_MS)
    assert life.store.log.min_offset == 0
    needed = None
    life.pass_time(DAY_MS)
    life.until(lambda: life.store.log.min_offset > 0)
    life.store.close()


def test_a_rolled_message_is_on_disk_before_its_old_file_goes(tmp_path: Path, clock: ManualClock) -> None:
    life = begin(tmp_path, clock, set())
    life.send(b"x", TIMER_DELIVER_MS=str(clock.now_ms() + DAY_MS))
    end = life.store.max_log_offset
    assert not life.store._guard.free(end) or life.store.flushed_log_offset >= life.store.max_log_offset
    life.until(lambda: life.store._guard.free(end))
    assert life.store.flushed_log_offset >= life.store.max_log_offset > end
    life.store.close()


def test_a_timer_that_another_broker_ended_is_followed(tmp_path: Path, clock: ManualClock) -> None:
    """As a slave sees it: the master's records come through the log."""
    life = begin(tmp_path, clock, set())
    life.send(b"x", TIMER_DELIVER_MS=str(clock.now_ms() + DAY_MS))
    (waiting,) = read_queue(life.store, "rmq_sys_wheel_timer")
    assert life.store._guard.is_needed(life.store.max_log_offset)
    ended = message(b"x", "T")
    ended.prepared_offset = ~waiting.log_offset
    life.store.append(ended)
    assert not life.store._guard.is_needed(life.store.max_log_offset)
    life.store.close()
