"""Runs servers in one event loop until somebody asks them to stop: signals in, an exit code out."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from rocketeer.memory import keep_freed_memory
from rocketeer.store.scheduling import use_latency_scheduling

# Thousands of tuples live for a few milliseconds each: looking for cycles among them often finds nothing.
GC_THRESHOLDS = (5_000, 5, 800)
"""Small and often: what a collection looks at is what the loop waits for."""
KEPT_BYTES = 64 << 20
"""Freed memory that is kept: a busy turn of the loop takes megabytes and frees them all."""
EXIT_FORCED = 130  # what a shell reports for a program that Ctrl-C ended


class Server(Protocol):
    """A name server, a broker, or a child process that is one."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, on uvloop where it is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


async def serve(
    servers: Sequence[Server],
    *,
    ready: Callable[[], None],
    on_force: Callable[[], None] = lambda: None,
    stop_at_end_of_stdin: bool = False,
) -> None:
    """Start the servers in order, call `ready`, wait for a signal, stop them in reverse order.

    When one cannot start, those before it are stopped again and its error is raised. A second signal ends
    the process at once: for the store that is a crash, and it recovers from crashes.
    """
    use_latency_scheduling()
    keep_freed_memory(KEPT_BYTES)
    stop = asyncio.Event()
    _stop_on_signals(stop, on_force)
    if stop_at_end_of_stdin:
        _stop_when_stdin_ends(stop)
    gc.collect()  # now, while nobody waits: it takes its time
    async with contextlib.AsyncExitStack() as started:
        for server in servers:
            await server.start()
            started.push_async_callback(server.stop)
        # What lives now lives until the end: no later collection needs to look at it.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        ready()
        await stop.wait()


def _stop_on_signals(stop: asyncio.Event, on_force: Callable[[], None]) -> None:
    def asked() -> None:
        if stop.is_set():
            on_force()
            os._exit(EXIT_FORCED)
        stop.set()
        if sys.stderr.isatty():
            print("\nstopping; Ctrl-C again ends it at once", file=sys.stderr, flush=True)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup it is ignored, and stays so
        loop.add_signal_handler(signal.SIGHUP, asked)


def _stop_when_stdin_ends(stop: asyncio.Event) -> None:
    """The parent holds the other end of the pipe: however it dies, the pipe ends and so do we."""
    loop = asyncio.get_running_loop()

    def wait_for_end() -> None:
        while os.read(0, 4096):
            pass
        with contextlib.suppress(RuntimeError):  # the loop has ended already: there is nothing to stop
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait_for_end, name="parent-watch", daemon=True).start()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
