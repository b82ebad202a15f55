"""Files that are replaced whole: a process that dies, or a power failure, leaves the old one or the new one."""

import os
from collections.abc import Iterable
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Durable on return; blocks on the disk. `mode`: who may read it, from its first byte on."""
    fresh = path.with_name(path.name + ".tmp")
    write_synced(fresh, (content,), mode=mode)
    fresh.replace(path)
    sync_path(path.parent)


def write_synced(path: Path, parts: Iterable[bytes | memoryview], *, mode: int | None = None) -> None:
    """Write the parts, one behind the other, and have them on the disk; the name may still get lost."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
    fd = os.open(path, flags, 0o666 if mode is None else 0o600)
    with os.fdopen(fd, "wb") as file:
        if mode is not None:
            os.fchmod(fd, mode)
        file.writelines(parts)
        file.flush()
        os.fsync(fd)


def sync_path(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
