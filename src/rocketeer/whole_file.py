"""Files that are made or replaced whole: a process that dies, or a power cut, leaves the old one or the new one."""

import errno
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_TEMPORARY: Final = re.compile(r"(.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)
LEFT_BEHIND_S: Final = 3600
"""What is not in its place by then never will be: its process died."""


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Durable on return; blocks on the disk. `mode`: who may read it, from its first byte on.

    When several processes replace a file at once, it is what one of them wrote.
    """
    with _fresh(path, content, mode) as fresh:
        fresh.replace(path)
    sync_path(path.parent)


def create_file(path: Path, content: bytes) -> None:
    """As `replace_file`; FileExistsError if there is one: of several processes one makes it."""
    with _fresh(path, content, None) as fresh:
        try:
            os.link(fresh, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            fresh.replace(path)
    sync_path(path.parent)


@contextmanager
def _fresh(path: Path, content: bytes, mode: int | None) -> Iterator[Path]:
    """A file beside it that is on the disk, under a name of its own; gone at the end if it is still there."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        write_synced(fresh, (content,), mode=mode)
        _remove_left_behind(path, fresh.stat().st_mtime)
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)


def is_temporary(name: str) -> bool:
    """Whether a file of that name is on its way to another one, or was left behind by a crash."""
    return _TEMPORARY.fullmatch(name) is not None


def _remove_left_behind(path: Path, now_s: float) -> None:
    with (
        suppress(OSError),
        os.scandir(path.parent) as items,
    ):  # others may remove the same; what stays does no harm
        for item in items:
            found = _TEMPORARY.fullmatch(item.name)
            if found is not None and found[1] == path.name and now_s - item.stat().st_mtime > LEFT_BEHIND_S:
                os.unlink(item.path)


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
