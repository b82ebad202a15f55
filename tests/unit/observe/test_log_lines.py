"""Laws of log lines: one line an event, and a condition that lasts is said ever more seldom."""

import io
import itertools
import json
import logging
import sys

import pytest

from rocketeer.observe.log_lines import (
    FIRST_S,
    LONGEST_S,
    JsonFormat,
    LineFormat,
    RepeatingWarnings,
    RepeatLimit,
)


def record(
    message: str, *args: object, level: int = logging.WARNING, error: bool = False
) -> logging.LogRecord:
    trace = None
    if error:
        try:
            raise ValueError("no\nway")
        except ValueError:
            trace = sys.exc_info()
    return logging.LogRecord("rocketeer.store.disk", level, __file__, 1, message, args, trace)


class Heard:
    """What came through to the writer."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.stream = io.StringIO()
        writer = logging.StreamHandler(self.stream)
        writer.setFormatter(logging.Formatter("%(message)s"))
        self.handler = RepeatingWarnings([writer], now_s=lambda: self.now_s)

    def say(self, message: str, *args: object, level: int = logging.WARNING) -> None:
        self.handler.handle(record(message, *args, level=level))

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


def test_a_condition_of_37_minutes_is_said_a_few_times_with_a_count() -> None:
    heard = Heard()
    rounds = 37 * 60 // 5
    for number in range(rounds):
        heard.now_s = 5.0 * number
        heard.say("half messages wait group=%s count=%d", "PG", number)
    assert len(heard.lines) == 6
    assert heard.lines[0] == "half messages wait group=PG count=0"
    assert heard.lines[1] == "half messages wait group=PG count=12 (again: 12 times in 60 s)"
    assert heard.lines[2].endswith("(again: 24 times in 120 s)")


def test_no_interval_is_longer_than_an_hour() -> None:
    repeats, said = RepeatLimit(), []
    for number in range(100_000):
        if repeats.suffix_if_due(("a",), number * 10.0) is not None:
            said.append(number * 10.0)
    assert said[1] - said[0] == FIRST_S
    assert max(later - earlier for earlier, later in itertools.pairwise(said)) == LONGEST_S


def test_what_differs_in_more_than_figures_is_another_condition() -> None:
    heard = Heard()
    for group in ("A", "B"):
        for offset in (1, 2):
            heard.say("message gone group=%s log_offset=%d", group, offset)
    assert len(heard.lines) == 4
    heard.say("message gone group=%s log_offset=%d", "A", 1)
    assert len(heard.lines) == 4


def test_a_condition_that_was_over_is_said_again_at_once() -> None:
    heard = Heard()
    heard.say("disk slow ms=%d", 5)
    heard.now_s = FIRST_S + 1
    heard.say("disk slow ms=%d", 6)
    assert heard.lines == ["disk slow ms=5", "disk slow ms=6"]


def test_what_is_no_warning_is_always_said() -> None:
    heard = Heard()
    for _ in range(3):
        heard.say("topic created topic=%s", "T", level=logging.INFO)
    assert len(heard.lines) == 3


def test_other_conditions_do_not_fill_the_memory() -> None:
    repeats = RepeatLimit()
    for number in range(10_000):
        repeats.suffix_if_due((number,), 0.0)
    assert len(repeats._conditions) <= 1_000


@pytest.mark.parametrize("value", ["x" * 250_000, ValueError("x" * 250_000), ["x" * 250_000]], ids=type)
def test_what_a_peer_makes_long_is_a_short_line_and_a_short_memory(value: object) -> None:
    heard = Heard()
    for level in (logging.INFO, logging.WARNING):
        heard.say("refused header=%s remark=%.300r count=%d", value, "y" * 1_000, 7, level=level)
    heard.say("z" * 250_000)
    short, also_short, cut = heard.lines
    assert short == also_short
    assert "xxx... (25" in short
    assert short.endswith(" count=7")
    assert len(short) < 1_000
    assert len(cut) < 5_000
    assert sum(len(str(key)) for key in heard.handler._repeats._conditions) < 5_000


def test_a_long_trace_is_cut() -> None:
    long = logging.LogRecord("rocketeer.x", logging.ERROR, __file__, 1, "it broke", (), None)
    try:
        raise ValueError("x" * 250_000)
    except ValueError:
        long.exc_info = sys.exc_info()
    heard = Heard()
    for formatter in (LineFormat(), JsonFormat()):
        heard.handler.handle(long)
        assert "ValueError: xxx" in formatter.format(long)
        assert len(formatter.format(long)) < 20_000


def test_a_line_for_people_is_one_line_also_with_a_trace() -> None:
    line = LineFormat("broker-b ").format(record("it broke path=%s", "/x", error=True))
    assert "\n" not in line
    assert " WARNING broker-b store.disk it broke path=/x | Traceback" in line


@pytest.mark.parametrize("server", ["", "broker-b"])
def test_a_line_for_machines_is_one_object(server: str) -> None:
    line = JsonFormat(server).format(record("it broke path=%s", "/x\n", error=True))
    assert "\n" not in line
    told = json.loads(line)
    assert (told["level"], told["logger"], told["message"]) == (
        "warning",
        "rocketeer.store.disk",
        "it broke path=/x\n",
    )
    assert "ValueError: no\nway" in told["trace"]
    assert told.get("server", "") == server
    assert told["time"].endswith("Z")
