"""Says what held up the event loop: the loop is the hot path, and nothing may keep it for long."""

import logging
import sys
import threading
import time

log = logging.getLogger(__name__)

CHECK_S = 0.05
STALL_S = 0.1
CALLS_MAX = 6


class LoopWatchdog:
    """A thread that looks whether the loop still beats; `beat` must be called on the loop every `CHECK_S` or so."""

    def __init__(self, *, stall_s: float = STALL_S) -> None:
        self._stall_s = stall_s
        self._beat_s = time.monotonic()
        self._loop_thread = threading.get_ident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)

    def start(self) -> None:
        self._loop_thread = threading.get_ident()
        self._beat_s = time.monotonic()
        self._thread.start()

    def beat(self) -> None:
        self._beat_s = time.monotonic()

    def stop(self) -> None:
        self._stop.set()

    def _watch(self) -> None:
        reported_s = 0.0
        while not self._stop.wait(CHECK_S):
            beat_s = self._beat_s
            stalled_s = time.monotonic() - beat_s
            if stalled_s < self._stall_s + CHECK_S:
                continue
            if beat_s == reported_s:
                continue
            reported_s = beat_s  # one line a stall
            where = " < ".join(_stack(self._loop_thread))
            log.warning("loop stalled ms=%d at=%s", stalled_s * 1000, where)


def _stack(thread: int) -> list[str]:
    """The innermost calls of a thread as texts; keeps no frame, which would keep its variables alive."""
    frame = sys._current_frames().get(thread)
    calls: list[str] = []
    while frame is not None and len(calls) < CALLS_MAX:
        code = frame.f_code
        calls.append(f"{code.co_name} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})")
        frame = frame.f_back
    return calls
