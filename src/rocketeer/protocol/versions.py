"""The numbers clients and brokers give as their version, and RocketMQ's names for them (409 is V4_9_8)."""

from collections.abc import Iterator
from functools import cache
from typing import Final

V3_0_7_SNAPSHOT: Final = 28
"""From here on clients take new offsets (220) and tell theirs (221)."""
V3_1_8_SNAPSHOT: Final = 62
"""From here on clients tell their running state (307) and consume on demand (309)."""


def _releases() -> Iterator[str]:
    yield from (f"3_0_{patch}" for patch in range(1, 16))
    for minor in range(1, 10):
        yield from (f"3_{minor}_{patch}" for patch in range(0 if minor < 3 else 1, 10))
    for major in (4, 5):
        yield from (f"{major}_{minor}_{patch}" for minor in range(10) for patch in range(10))


@cache
def _names() -> tuple[str, ...]:
    """All names in the order of their numbers; every release is preceded by its snapshot, which counts too."""
    early = ["SNAPSHOT", "ALPHA1", *(f"BETA{number}" for number in range(1, 6))]
    for number in range(6, 10):
        early += [f"BETA{number}_SNAPSHOT", f"BETA{number}"]
    names = [f"V3_0_0_{name}" for name in (*early, "FINAL")]
    for release in _releases():
        names += [f"V{release}_SNAPSHOT", f"V{release}"]
    return (*names, "HIGHER_VERSION")


def version_name(number: int) -> str:
    """RocketMQ's name of a version number.

    >>> version_name(409), version_name(V3_1_8_SNAPSHOT), version_name(99_999)
    ('V4_9_8', 'V3_1_8_SNAPSHOT', 'HIGHER_VERSION')
    """
    names = _names()
    return names[min(max(number, 0), len(names) - 1)]
