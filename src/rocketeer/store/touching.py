"""Brings the pages that the log will be written to into memory, in time that nobody else wants.

The first write to a page of a file has the kernel find memory for it. That costs more than the write: in a virtual
machine, whose host may have to find it too, ten times as much. A thread of the idle class does it ahead of the writer;
a core that has anything else to run does not run this thread. Nothing depends on it but speed.
"""

import os
from array import array
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING

from rocketeer.record.speed import COMPILED
from rocketeer.store.segment import Segment
from rocketeer.store.threads import only_when_idle

Touch = Callable[[int, int, int, int, "array[int]"], int]
touch: Touch | None = None

if not TYPE_CHECKING and COMPILED and hasattr(os, "SCHED_IDLE"):
    from rocketeer.store._touch import touch

_STOP, _WRITER = 0, 1


class Toucher:
    """Told by others what is allocated and where the writer is; works towards the end of it."""

    def __init__(self) -> None:
        self._orders = array("q", [0, 0])
        self._wake = Event()
        self._wanted: Sequence[tuple[Segment, int]] = ()
        self._touched = 0
        self._thread: Thread | None = None

    def start(self) -> None:
        if touch is not None:
            self._thread = Thread(target=self._run, args=(touch,), name="rocketeer-log-toucher", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._orders[_STOP] = 1
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def writer_at(self, log_offset: int) -> None:
        self._orders[_WRITER] = log_offset

    def want(self, parts: Sequence[tuple[Segment, int]]) -> None:
        """Segments in the order of the log, each with the end of what is allocated in it."""
        if self._thread is not None and sum(part[1] for part in parts) != sum(part[1] for part in self._wanted):
            self._wanted = parts
            self._wake.set()

    def _run(self, touch: Touch) -> None:
        only_when_idle()
        while not self._orders[_STOP]:
            self._wake.wait()
            self._wake.clear()
            for segment, end in self._wanted:
                start = max(self._touched, segment.base)
                if start < segment.base + end:
                    self._touch(touch, segment, start, segment.base + end)

    def _touch(self, touch: Touch, segment: Segment, start: int, end: int) -> None:
        try:
            fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # deleted meanwhile
        try:
            self._touched = touch(fd, segment.base, start, end, self._orders)
        finally:
            os.close(fd)
