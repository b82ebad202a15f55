"""Brings the pages that the log will be written to into memory, in time that nobody else wants.

The first write to a page of a file has the kernel find memory for it. That costs more than the write: in a virtual
machine, whose host may have to find it too, ten times as much. A thread of the idle class does it ahead of the
writer; a core that has anything else to run does not run this thread. Nothing depends on it but speed.
"""

import contextlib
import os
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.store.segment import Segment

_ORDER = struct.Struct("=qqq")  # descriptor, start, end
_start: Callable[[int], None] | None = None

if not TYPE_CHECKING and COMPILED and hasattr(os, "SCHED_IDLE"):
    from rocketeer.store._page_prefault import start as _start


class PagePrefault:
    """Hands allocated parts of segments to a thread that brings their pages into memory. For the allocating
    thread."""

    def __init__(self) -> None:
        self._pipe = -1
        self._told = 0
        """The log offset up to which the thread has its orders."""

    def start(self) -> None:
        if _start is not None:
            orders, self._pipe = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self._pipe, False)
            _start(orders)

    def request(self, segment: Segment) -> None:
        """Order all that is allocated of this segment, from where the last order ended."""
        start, end = max(self._told - segment.base, 0), segment.reserved
        if self._pipe < 0 or start >= end:
            return
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.write(self._pipe, _ORDER.pack(fd, start, end))
            except BlockingIOError:  # it has enough to do
                os.close(fd)
                return
            self._told = segment.base + end

    def close(self) -> None:
        """Close the thread's pipe; the thread ends on its own, nobody waits for it."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
