"""What a look at the machine brought: how it is, and what to do when it should be otherwise."""

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How serious it is."""

    OK = "ok"
    ADVICE = "advice"
    """It works; this would be better."""
    WRONG = "wrong"
    """Something will not work until it is changed."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was looked at."""

    level: Level
    what: str
    seen: str
    change: str = ""


def ok(what: str, seen: str) -> CheckResult:
    return CheckResult(Level.OK, what, seen)


def advice(what: str, seen: str, change: str) -> CheckResult:
    return CheckResult(Level.ADVICE, what, seen, change)


def wrong(what: str, seen: str, change: str) -> CheckResult:
    return CheckResult(Level.WRONG, what, seen, change)
