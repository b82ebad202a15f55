"""The store's disk: room, kind of file system, and how long it takes until bytes are safe."""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocketeer.cli.doctor.finding import CheckResult, advice, ok, wrong

RATIO_MAX: Final = 0.75
REFUSED_RATIO: Final = 0.90
SYNC_MS_MAX: Final = 20.0
SYNCS: Final = 20
WRITTEN_BYTES: Final = 4096
NETWORK_KINDS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "glusterfs"})


def disk_findings(store: Path) -> Iterator[CheckResult]:
    folder = nearest_folder(store)
    if not os.access(folder, os.W_OK | os.X_OK):
        yield wrong(
            "store", f"{folder} cannot be written to", f"chown it to the user who runs the broker: {folder}"
        )
        return
    usage = shutil.disk_usage(folder)
    # As brokers and df reckon: what is kept for root is no room.
    yield room(store, usage.used / max(usage.used + usage.free, 1), usage.free)
    yield file_system(folder, kind_of(folder))
    yield sync_time(folder, sync_ms(folder))


def nearest_folder(path: Path) -> Path:
    """The folder itself, or the one it will be made in."""
    path = path.absolute()
    return next(each for each in (path, *path.parents) if each.is_dir())


def room(store: Path, ratio: float, free_bytes: int) -> CheckResult:
    seen = f"{ratio:.0%} full, {free_bytes / (1 << 30):.1f} GiB free at {store}"
    if ratio > REFUSED_RATIO:
        return wrong("disk space", seen, f"free some: over {REFUSED_RATIO:.0%} brokers take no more messages")
    if ratio > RATIO_MAX:
        return advice(
            "disk space", seen, f"free some: over {RATIO_MAX:.0%} brokers delete old messages early"
        )
    return ok("disk space", seen)


def kind_of(folder: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """The file system a folder is on, by the longest mount point above it."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    points = [(line.split()[1], line.split()[2]) for line in lines if len(line.split()) > 2]
    inside = [(point, kind) for point, kind in points if folder.is_relative_to(point.replace("\\040", " "))]
    return max(inside, key=lambda each: len(each[0]))[1] if inside else None


def file_system(folder: Path, kind: str | None) -> CheckResult:
    if kind in NETWORK_KINDS:
        return advice(
            "file system",
            f"{kind} at {folder}",
            "keep stores on a local disk: mapped files over a network are slow",
        )
    if kind in ("tmpfs", "ramfs"):
        return advice(
            "file system",
            f"{kind} at {folder}",
            "memory is lost with the machine: use a disk for what must last",
        )
    return ok("file system", kind or "unknown")


def sync_ms(folder: Path) -> float:
    """The median time of a write of 4 KiB until the disk has it."""
    times: list[float] = []
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".rocketeer-doctor-") as file:
        for _ in range(SYNCS):
            started_s = time.perf_counter()
            os.write(file.fileno(), bytes(WRITTEN_BYTES))
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - started_s) * 1000)
    return statistics.median(times)


def sync_time(folder: Path, ms: float) -> CheckResult:
    seen = f"{ms:.1f} ms until 4 KiB are safe at {folder}"
    if ms > SYNC_MS_MAX:
        change = "every send waits so long under SYNC_FLUSH: use a faster disk, or ASYNC_FLUSH with a slave"
        return advice("fsync", seen, change)
    return ok("fsync", seen)
