"""How often the machine itself stands still: what no broker can be blamed for when a reply comes late.

Looks at the clock without end, once on every core at the same time; what lies between two looks was taken away by
other programs, the kernel or the machine underneath.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

PAUSE_S: Final = 0.0005
"""Half of what a reply may take."""
_SECONDS: Final = 2.0


def paused_share(seconds: float = _SECONDS) -> float:
    """The share of time in pauses of PAUSE_S and more, on the core that has most of them."""
    cores = sorted(os.sched_getaffinity(0))
    words = [sys.executable, "-m", __name__, str(seconds)]
    watching = [
        subprocess.Popen([*words, str(core)], stdout=subprocess.PIPE, text=True, env=os.environ)
        for core in cores
    ]
    return max(float(each.communicate(timeout=seconds + 30)[0]) for each in watching)


def watched(seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """The share of time in pauses on the core we run on."""
    began_s = before_s = clock()
    paused_s = 0.0
    while before_s - began_s < seconds:
        now_s = clock()
        if now_s - before_s >= PAUSE_S:
            paused_s += now_s - before_s
        before_s = now_s
    return paused_s / (before_s - began_s)


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[2])})
    print(watched(float(sys.argv[1])))
