"""What of `kernel.py` every pull and every send asks, in Python: what `_kernel.pyx` does compiled."""

import ctypes
import errno
import mmap
import os
import sys

_MADV_POPULATE_READ = 22  # Linux 5.14
_LINUX = sys.platform == "linux"

_with_lock = ctypes.PyDLL(None)
if _LINUX:
    _with_lock.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def can_read(address: int, start: int, end: int) -> bool:
    """Bring mapped bytes [start, end) into memory; False where they cannot be read (or the kernel cannot say).

    A page that cannot be read would kill the process at the first look: this asks without looking. Holds the
    interpreter lock, as a look would.
    """
    start -= start % mmap.PAGESIZE
    return _LINUX and _with_lock.madvise(address + start, end - start, _MADV_POPULATE_READ) == 0


def write_at(fd: int, data: bytes | bytearray | memoryview, at: int) -> None:
    """Write all of the bytes at this place of a file.

    Compiled, up to 64 KB are written without giving the interpreter lock away: that is over before another thread
    could do much with it, and to give it away and want it back has the core change hands twice.
    """
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            written = os.pwrite(fd, view[done:], at + done)
            if not written:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            done += written
