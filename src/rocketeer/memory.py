"""How the C library deals with memory that was freed."""

import contextlib
import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1  # of glibc's mallopt
_M_MMAP_THRESHOLD: Final = -3
_MMAP_THRESHOLD_BYTES_MAX: Final = 32 << 20


def keep_freed_memory(kept_bytes: int) -> None:
    """Have up to `kept_bytes` of freed memory stay with the process.

    Giving it back and asking for it again costs a page fault each 4 KB: work that takes megabytes and frees
    them all, again and again, would pay for them each time.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_TRIM_THRESHOLD, kept_bytes)
        libc.mallopt(_M_MMAP_THRESHOLD, min(kept_bytes // 2, _MMAP_THRESHOLD_BYTES_MAX))
