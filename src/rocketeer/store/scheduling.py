"""How threads share a core: those who answer requests come first, those who work for the disk give way.

A thread that got the core keeps it for its slice, 3 ms by default, even if one that answers requests wakes up
meanwhile. Everything here is a wish: kernels that do not know it go on as before.
"""

import ctypes
import os
import platform
import struct
import sys

_LINUX = sys.platform == "linux"
_SETATTR = {"x86_64": 314, "aarch64": 274}.get(platform.machine(), 0)
_ATTR = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, deadline, period
_SLICE_NS = 100_000  # the least the kernel takes


def use_latency_scheduling() -> None:
    """Schedule a thread that answers requests, the calling one: short slices let it in at once (Linux 6.12)."""
    if _LINUX:
        _set(os.SCHED_OTHER)


def use_batch_scheduling() -> None:
    """Schedule a thread that works for the disk, the calling one: it never pushes another aside."""
    if _LINUX:
        _set(os.SCHED_BATCH)


def _set(policy: int) -> None:
    """Set the calling thread's scheduling policy, unless the process was started with one of its own."""
    if _SETATTR and os.sched_getscheduler(0) == os.SCHED_OTHER:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        attr = _ATTR.pack(_ATTR.size, policy, 0, nice, 0, _SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(_SETATTR, 0, attr, 0)
