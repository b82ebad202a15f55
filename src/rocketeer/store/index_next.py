"""The next index file, made ready in small steps beside the work, so that starting to use it costs nothing.

Its slots are written with zeros, not left a hole: entries fall into slots at random, and the first touch of a
hole through a mapping costs up to 3 ms (the kernel clears 2 MB at a time), or kills the process when the disk
is full. Writing says so with an error. The entries stay a hole: they are written, not mapped.
"""

import os
from dataclasses import replace

from rocketeer.store.index_file import IndexFile
from rocketeer.store.index_layout import HEADER, SLOT, IndexHeader, file_bytes

STEP_BYTES = 64 << 10  # less than 0.1 ms
_ZEROS = bytes(STEP_BYTES)


class NextIndexFile:
    """A file under a name that no reader takes for an index, until `finish` gives it its real one."""

    def __init__(self, folder: str, slots_max: int, entries_max: int) -> None:
        self._path = os.path.join(folder, ".next")
        self._slots_max = slots_max
        self._entries_max = entries_max
        self._zeroed = 0

    @property
    def is_ready(self) -> bool:
        return self._zeroed == HEADER.size + self._slots_max * SLOT.itemsize

    def step(self) -> None:
        """A little more of the work; OSError if the disk is full, and nothing is lost."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if self._zeroed == 0:
                os.ftruncate(fd, 0)  # a process that died may have left one
                os.ftruncate(fd, file_bytes(self._slots_max, self._entries_max))
            left = HEADER.size + self._slots_max * SLOT.itemsize - self._zeroed
            self._zeroed += os.pwrite(fd, _ZEROS[:left], self._zeroed)
        finally:
            os.close(fd)

    def finish(self, path: str, header: IndexHeader) -> IndexFile:
        """Do what is left to do and open the file as `path`; `header` tells where the file before ended."""
        while not self.is_ready:
            self.step()
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            # As RocketMQ: a new file's header holds the times and offsets, not yet a count.
            os.pwrite(fd, replace(header, next_entry=0).pack(), 0)
        finally:
            os.close(fd)
        os.rename(self._path, path)
        return IndexFile(path, self._slots_max, self._entries_max)

    def discard(self) -> None:
        self._zeroed = 0
        if os.path.exists(self._path):
            os.unlink(self._path)
