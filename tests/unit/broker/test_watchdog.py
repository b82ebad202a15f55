"""The watchdog says where a loop stands, and keeps nothing of it."""

import gc
import logging
import threading
import time
import weakref

import pytest

from rocketeer.broker.watchdog import LoopWatchdog


class Held:
    """Something that a stalled function has at hand."""


def test_a_stall_is_told_and_what_the_stalled_function_had_at_hand_is_let_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = threading.Event()
    handler = logging.Handler()
    handler.emit = lambda record: told.set()  # type: ignore[method-assign]
    logging.getLogger("rocketeer.broker.watchdog").addHandler(handler)
    watchdog = LoopWatchdog(stall_s=0.05)

    def stalls() -> "weakref.ref[Held]":
        held = Held()
        assert told.wait(60)
        return weakref.ref(held)

    try:
        watchdog.start()
        seen = stalls()
        give_up_s = time.monotonic() + 5
        while seen() is not None and time.monotonic() < give_up_s:
            watchdog.beat()  # no other stall that would take its place
            gc.collect()
            time.sleep(0.005)
        assert seen() is None
        assert "stalls (test_watchdog.py" in caplog.text
    finally:
        watchdog.stop()
        logging.getLogger("rocketeer.broker.watchdog").removeHandler(handler)
