"""The watchdog says where a loop stands, and keeps nothing of it."""

import gc
import logging
import threading
import time
import weakref

from rocketeer.broker.watchdog import LoopWatchdog


class Held:
    """Something that a stalled function has at hand."""


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage()
        self.told.set()


def test_a_stall_is_told_and_what_the_stalled_function_had_at_hand_is_let_go() -> None:
    handler = Lines()
    logging.getLogger("rocketeer.broker.watchdog").addHandler(handler)
    watchdog = LoopWatchdog(stall_s=0.05)

    def stalls() -> "weakref.ref[Held]":
        held = Held()
        while "stalls (test_watchdog.py" not in handler.text:  # a busy machine may have stalled before
            handler.told.clear()
            watchdog.beat()
            assert handler.told.wait(60)
        return weakref.ref(held)

    try:
        watchdog.start()
        seen = stalls()
        give_up_s = time.monotonic() + 60
        while seen() is not None and time.monotonic() < give_up_s:
            watchdog.beat()  # no other stall that would take its place
            gc.collect()
            time.sleep(0.005)
        assert seen() is None
    finally:
        watchdog.stop()
        logging.getLogger("rocketeer.broker.watchdog").removeHandler(handler)
