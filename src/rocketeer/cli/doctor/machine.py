"""The machine: open files, kernel settings, memory, clock. Each look takes what it judges as an argument."""

import ctypes
import ctypes.util
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocketeer.cli.doctor.finding import CheckResult, advice, ok, wrong

FILES_MIN: Final = 1024
FILES_WANTED: Final = 65_535
MAP_COUNT_MIN: Final = 262_144
SWAPPINESS_MAX: Final = 10
MEMORY_BYTES_MIN: Final = 1 << 30
_TIME_ERROR: Final = 5
_PROC: Final = Path("/proc")


def machine_findings(proc: Path = _PROC) -> Iterator[CheckResult]:
    yield open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield map_count(_number(proc / "sys/vm/max_map_count"))
    yield swappiness(_number(proc / "sys/vm/swappiness"))
    yield memory(available_bytes(proc))
    yield clock(clock_state())


def open_files(soft: int, hard: int) -> CheckResult:
    """Servers take the hard limit when they start; clients and tools live with the soft one."""
    seen = f"{soft:,} now, at most {'any number' if hard == resource.RLIM_INFINITY else f'{hard:,}'}"
    change = (
        f"raise the limit to {FILES_WANTED}: LimitNOFILE= in the unit, or nofile in /etc/security/limits.conf"
    )
    if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
        return wrong("open files", seen, change)
    if hard != resource.RLIM_INFINITY and hard < FILES_WANTED:
        return advice("open files", seen, f"{change} (each connection is one)")
    return ok("open files", seen)


def map_count(count: int | None) -> CheckResult:
    """Every file of the log and of the queues that is in use is a mapping."""
    what = "vm.max_map_count"
    if count is None:
        return advice(what, "cannot be read here", f"see that it is {MAP_COUNT_MIN} or more")
    if count < MAP_COUNT_MIN:
        return advice(
            what, f"{count:,}", f"sysctl -w {what}={MAP_COUNT_MIN} (brokers with many queues need it)"
        )
    return ok(what, f"{count:,}")


def swappiness(value: int | None) -> CheckResult:
    what = "vm.swappiness"
    if value is None:
        return advice(what, "cannot be read here", "see that it is 1 to 10")
    if value > SWAPPINESS_MAX:
        return advice(
            what, str(value), f"sysctl -w {what}=1: a broker that is swapped out stands still for seconds"
        )
    return ok(what, str(value))


def memory(available: int | None) -> CheckResult:
    if available is None:
        return advice("memory", "cannot be read here", "see that at least 1 GiB is free")
    seen = f"{available / (1 << 30):.1f} GiB free"
    if available < MEMORY_BYTES_MIN:
        return advice(
            "memory", seen, "give the machine or the container more: the page cache is where messages are"
        )
    return ok("memory", seen)


def available_bytes(proc: Path = _PROC) -> int | None:
    """What is free on the machine, or what the container may still take if that is less."""
    found: list[int] = []
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        lines = []
    found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    limit, used = (_number(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current"))
    if limit is not None and used is not None:
        found.append(max(limit - used, 0))
    return min(found, default=None)


def clock(state: int | None) -> CheckResult:
    """Store times, delays and retention follow the machine's clock; machines of a cluster must agree."""
    if state is None:
        return advice("clock", "cannot be asked here", "see that NTP or chrony keeps it")
    if state == _TIME_ERROR:
        return advice(
            "clock", "not kept by a time server", "run chrony or systemd-timesyncd: timedatectl set-ntp true"
        )
    return ok("clock", "kept by a time server")


class _Timex(ctypes.Structure):
    """The beginning of Linux' struct timex; the rest is room for the kernel to write to."""

    _fields_ = (("modes", ctypes.c_uint), ("rest", ctypes.c_byte * 508))


def clock_state() -> int | None:
    """What the kernel says of its clock (adjtimex), changing nothing."""
    try:
        libc = ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6", use_errno=True)
        state = int(libc.adjtimex(ctypes.byref(_Timex())))
    except (OSError, AttributeError):
        return None
    return state if state >= 0 else None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
