"""A child process that does not outlive the one that started it, however that one ends."""

import contextlib
import ctypes
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def end_with_parent(number: int) -> None:
    """Runs in the child, before it becomes another program: the signal comes when the thread that started it ends."""
    with contextlib.suppress(OSError, AttributeError):  # not on Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
