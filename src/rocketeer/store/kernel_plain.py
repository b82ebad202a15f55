"""What of `kernel.py` every pull asks, with ctypes: what `_kernel.pyx` does compiled."""

import ctypes
import mmap
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
