"""Ctrl-C and SIGTERM, for a main thread that mostly waits for an answer of the JVM.

The kernel gives a signal to whichever thread it likes. Python then only notes it: handlers run in the main thread,
once it has ended its wait, and a slow job's answer comes in minutes. So another thread ends that wait.
"""

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)
_WAKING: Final = signal.SIGURG
"""Means nothing to anybody else: it is ignored unless handled."""
_AGAIN_S: Final = 0.1


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised in the main thread.

    A kind of KeyboardInterrupt: at that, py4j gives up the connection whose answer nobody will read.
    """


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM raises Terminated; it and Ctrl-C are handled at once, whatever the main thread waits for.

    Does nothing in other threads: only the main one can.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    awake = threading.Event()

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    def note_waking(number: int, frame: FrameType | None) -> None:
        awake.set()

    before = {number: signal.getsignal(number) for number in (*_STOPPING, _WAKING)}
    signal.signal(signal.SIGTERM, terminate)
    signal.signal(_WAKING, note_waking)
    seen, told = socket.socketpair()
    told.setblocking(False)
    told_before = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_wake_main, args=(seen, awake), name="signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(told_before)
        told.close()
        watcher.join()
        seen.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _wake_main(seen: socket.socket, awake: threading.Event) -> None:
    """`seen` has a byte for each signal that came, whichever thread got it."""
    main = threading.main_thread().ident
    assert main is not None
    while numbers := seen.recv(64):
        if not any(number in numbers for number in _STOPPING):
            continue
        awake.clear()
        while not awake.is_set():
            # Again, because one that comes just before the main thread begins to wait does not end that wait.
            signal.pthread_kill(main, _WAKING)
            awake.wait(_AGAIN_S)


def take_ctrl_c() -> None:
    """Back from PySpark, whose handler calls the JVM in the middle of a call of the JVM, which fails loudly."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
