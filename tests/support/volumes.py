"""A small file system of its own for a test, to be filled up: `with small_volume(path, megabytes=32): ...`."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

VolumeKind = Literal["tmpfs", "ext4"]
_COMMAND_S = 60


@contextlib.contextmanager
def small_volume(path: Path, *, megabytes: int, kind: VolumeKind = "tmpfs") -> Iterator[Path]:
    """Mounted at `path` inside the block; skips the test where mounting is not possible."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    path.mkdir(parents=True, exist_ok=True)
    image = path.with_name(f"{path.name}.img")
    if kind == "tmpfs":
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "rocketeer-test", str(path))
    else:
        with image.open("wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
        _run("mount", "-o", "loop", str(image), str(path))
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False, timeout=_COMMAND_S)
        image.unlink(missing_ok=True)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S)
    except FileNotFoundError:
        pytest.skip(f"{command[0]} is not installed here")
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stderr.strip()}")


def fill(folder: Path, *, leave_bytes: int = 0) -> Path:
    """A file that takes all the room but `leave_bytes`; delete it to give the room back."""
    ballast = folder / "ballast"
    with ballast.open("ab") as file:
        while True:
            stat = os.statvfs(folder)
            size = min(stat.f_bavail * stat.f_frsize - leave_bytes, 1 << 20)
            if size <= 0:
                return ballast
            try:
                file.write(b"x" * size)
                file.flush()
                os.fsync(file.fileno())
            except OSError:  # no space: as full as it gets
                with contextlib.suppress(OSError):
                    file.flush()
                return ballast
