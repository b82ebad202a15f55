"""How fast a slave that is far behind catches up: as fast as it can, but for a master that has no time to spare.

Sends come first. A master whose loop works all the time (or waits for a processor all the time) would answer fewer of
them for every byte it sends to such a slave, and the slave's own work, on the same machine, as well.
"""

import time
from typing import Final

BUSY_SHARE: Final = 0.75
"""From here on the loop has no time to spare."""
BUSY_BYTES_PER_S: Final = 64 << 20
LOOK_S: Final = 0.05
"""A shorter time tells nothing about how busy the loop is."""


def loop_busy_s() -> float:
    """Seconds for which the calling thread has worked, or wanted to and waited for a processor."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            worked_ns, waited_ns = file.read().split()[:2]
    except (OSError, ValueError):  # a kernel that keeps no account of waiting
        return time.thread_time()
    return (int(worked_ns) + int(waited_ns)) / 1e9


class Pace:
    """Paces the sending to one slave that is far behind. Time is an argument: `now_s`, and `busy_s` of the loop
    thread."""

    def __init__(self) -> None:
        self._looked_s = self._busy_s = -1.0
        self._is_busy = False
        self._free_s = 0.0

    def look(self, now_s: float, busy_s: float) -> None:
        """See how busy the loop was since the last time."""
        passed_s = now_s - self._looked_s
        if passed_s < LOOK_S:
            return
        if passed_s < 1.0:  # else nobody was catching up meanwhile
            self._is_busy = busy_s - self._busy_s > BUSY_SHARE * passed_s
        self._looked_s, self._busy_s = now_s, busy_s

    def rest_s(self, now_s: float, size: int) -> float:
        """How long the next piece waits when `size` bytes go out now; 0 for a loop that has time."""
        if not self._is_busy:
            self._free_s = now_s
            return 0.0
        self._free_s = max(self._free_s, now_s - LOOK_S) + size / BUSY_BYTES_PER_S
        return max(0.0, self._free_s - now_s)
