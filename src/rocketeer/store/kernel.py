"""System calls that Python's library lacks, or makes while it holds the interpreter lock; used by log segments.

`mmap.flush` keeps every other thread waiting while the disk works. ctypes lets go of the lock, so the same
calls made here cost the event loop nothing.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.store.kernel_plain import can_read as can_read
from rocketeer.store.kernel_plain import write_at as write_at

PAGE_BYTES = mmap.PAGESIZE
_MADV_POPULATE_WRITE = 23  # Linux 5.14
_LINUX = sys.platform == "linux"
_SYNC_FILE_RANGE_WRITE = 2
_MS_SYNC = 4 if _LINUX else 16

_libc = ctypes.CDLL(None, use_errno=True)
_libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
if _LINUX:
    _libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    _libc.syncfs.argtypes = [ctypes.c_int]
    _libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]

if COMPILED and _LINUX and not TYPE_CHECKING:
    from rocketeer.store._kernel import can_read as can_read
    from rocketeer.store._kernel import write_at as write_at


class SyncFailed(OSError):
    """A sync call itself failed: what it should have brought to disk may be gone, and asking again proves nothing."""


def address_of(mapping: mmap.mmap) -> int:
    """Where the mapping starts; good as long as the caller keeps the mapping alive."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def populate(address: int, start: int, end: int) -> bool:
    """Make pages [start, end) of a mapping present and writable: later stores into them meet no page fault.

    False where the kernel cannot (stores then fault one by one, which is slower and nothing else). The file's
    blocks must be allocated, or a full disk would kill the process at the first store.
    """
    start -= start % PAGE_BYTES
    return _LINUX and _libc.madvise(address + start, end - start, _MADV_POPULATE_WRITE) == 0


def sync_range(address: int, start: int, end: int) -> None:
    """Make mapped bytes [start, end) durable. As fdatasync, but without the pages populated ahead of them."""
    start -= start % PAGE_BYTES
    while _libc.msync(address + start, end - start, _MS_SYNC) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise SyncFailed(number, os.strerror(number))


def begin_writing(fd: int, start: int, end: int) -> None:
    """Let the disk begin with bytes [start, end), so that the sync that follows finds little to do. Only a hint."""
    if _LINUX:
        _libc.sync_file_range(fd, start, end - start, _SYNC_FILE_RANGE_WRITE)


def sync_fd(fd: int) -> None:
    """Make an open file (or folder) durable."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror) from error


def sync_file_system(fd: int) -> None:
    """Make everything written to the file system of an open file durable, in one call.

    Errors are told of writes that failed since the descriptor was opened: keep one for long.
    """
    if not _LINUX:
        os.sync()
    elif _libc.syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise SyncFailed(number, os.strerror(number))


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable: new files, renamed ones, deleted ones."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_fd(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, if it is not there; the names are durable on return."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(str(folder.parent))


def physical_memory_bytes(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int:
    """The machine's memory, or what of it the process and its files may have (a container's limit)."""
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [groups / "memory.max", groups / "memory" / "memory.limit_in_bytes"]
    with contextlib.suppress(OSError):
        for line in own.read_text().splitlines():
            if line.startswith("0::/"):
                limits.append(groups / line[4:] / "memory.max")
    for limit in limits:
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            least = min(least, int(limit.read_text()))
    return least


def forget_clean_pages(fd: int, start: int) -> None:
    """Let go of what is in memory of a file from `start` on, and as it is on disk; what is mapped stays."""
    if _LINUX:
        os.posix_fadvise(fd, start, 0, os.POSIX_FADV_DONTNEED)


def data_ranges(fd: int, start: int, end: int) -> list[tuple[int, int]]:
    """Where in [start, end) a sparse file may hold bytes that are not zero."""
    ranges: list[tuple[int, int]] = []
    at = start
    while at < end:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break  # nothing but a hole up to the end
            return [(start, end)]  # a file system that cannot say
        if at >= end:
            break
        hole = min(os.lseek(fd, at, os.SEEK_HOLE), end)
        ranges.append((at, hole))
        at = hole
    return ranges
