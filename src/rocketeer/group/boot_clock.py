"""Seconds since the machine started, also those it slept: leases end while a machine is suspended."""

import time
from collections.abc import Callable

BootClock = Callable[[], float]


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
