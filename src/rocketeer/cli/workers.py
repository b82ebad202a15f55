"""Several processes of one app: started, watched, started again when they crash or, on request, when files change.

Each worker tells over a pipe, every second and from its event loop, whether it is ready. One that is silent hangs;
one whose pipe is closed has lost its supervisor and stops. A worker that ends by itself before it ever was ready will
not do better next time: then all end, with exit code 1.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rocketeer.client.core.transient import backoffs
from rocketeer.client.lifetime import stop_signals

log = logging.getLogger(__name__)

TELL_S: Final = 1.0
SILENT_S_MAX: Final = 15.0
"""A worker not heard of for so long hangs: it is not live any more."""
AGAIN_S: Final = 0.5
AGAIN_S_MAX: Final = 30.0
"""Pauses before a crashed worker is started again."""
LOOK_S: Final = 0.3
READY: Final = b"r"
WAITS: Final = b"w"
_NOT_WATCHED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def worker_command(target: str, arguments: Sequence[str]) -> list[str]:
    """The command line of one worker, all but its number and its pipe."""
    return [sys.executable, "-m", "rocketeer", "run", target, *arguments]


class StatusPipe:
    """A worker's end of the pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        os.set_blocking(fd, False)

    @contextlib.contextmanager
    def reporting(self, ready: Callable[[], bool], lost: Callable[[], None]) -> Iterator[None]:
        """Tell for as long as the block runs; `lost` is called once when nobody listens any more."""
        task = asyncio.create_task(self._tell(ready, lost))
        try:
            yield
        finally:
            task.cancel()
            os.close(self._fd)

    async def _tell(self, ready: Callable[[], bool], lost: Callable[[], None]) -> None:
        while True:
            try:
                os.write(self._fd, READY if ready() else WAITS)
            except BlockingIOError:
                pass  # the supervisor is slow: it has enough to read
            except OSError:
                log.warning("the supervisor is gone, this worker stops pid=%d", os.getpid())
                lost()
                return
            await asyncio.sleep(TELL_S if ready() else TELL_S / 10)


class WorkerProcess:
    """One process, as its supervisor sees it."""

    def __init__(self, process: asyncio.subprocess.Process, fd: int) -> None:
        self.process = process
        self.ready = False
        self.was_ready = False
        self.heard_s = time.monotonic()
        self._fd = fd
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> None:
        told = os.read(self._fd, 4096)
        if not told:
            self.ready = False
            self.close()
            return
        self.heard_s = time.monotonic()
        self.ready = told[-1:] == READY
        self.was_ready |= self.ready

    @property
    def live(self) -> bool:
        return self.process.returncode is None and time.monotonic() - self.heard_s < SILENT_S_MAX

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


class Supervisor:
    """Runs `count` workers until a signal comes; with `watched` folders and files, starts them anew on a change."""

    def __init__(self, command: Sequence[str], count: int, watched: Sequence[Path] = ()) -> None:
        self._command = list(command)
        self._count = count
        self._watched = list(watched)
        self._workers: dict[int, WorkerProcess] = {}
        self._stopping = False
        self._exit_code = 0
        self._changes = 0
        """How often watched files have changed."""

    @property
    def live(self) -> bool:
        return not self._stopping and all(worker.live for worker in self._workers.values())

    @property
    def ready(self) -> bool:
        workers = list(self._workers.values())
        return not self._stopping and len(workers) == self._count and all(each.ready for each in workers)

    async def run(self) -> int:
        """Run until all workers have ended; the exit code."""
        with stop_signals() as stop:
            keepers = [asyncio.create_task(self._keep(number, stop)) for number in range(1, self._count + 1)]
            watcher = asyncio.create_task(self._watch()) if self._watched else None
            await stop.wait()
            self._stopping = True
            self._signal_all(signal.SIGTERM)
            stop.clear()
            hurry = asyncio.create_task(stop.wait())  # a second Ctrl-C does not wait
            ended = asyncio.gather(*keepers)
            await asyncio.wait((ended, hurry), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._signal_all(signal.SIGKILL)
            await ended
            hurry.cancel()
            if watcher is not None:
                watcher.cancel()
        return self._exit_code

    def _signal_all(self, number: signal.Signals) -> None:
        for worker in self._workers.values():
            worker.signal(number)

    async def _keep(self, number: int, stop: asyncio.Event) -> None:
        """Have the worker of this number running until all stop."""
        pauses_s = backoffs(AGAIN_S, AGAIN_S_MAX)
        while not self._stopping:
            worker = await self._start(number)
            changed = self._changes
            code = await worker.process.wait()
            worker.close()
            if self._stopping or code == 0:
                if not self._stopping and self._changes == changed:
                    stop.set()  # it was asked to stop from elsewhere, and so are the others
                    return
                pauses_s = backoffs(AGAIN_S, AGAIN_S_MAX)
                continue
            if worker.was_ready:
                pauses_s = backoffs(AGAIN_S, AGAIN_S_MAX)
            elif not self._watched:
                log.error("worker cannot start number=%d exit_code=%d", number, code)
                self._exit_code = 1
                stop.set()
                return
            pause_s = next(pauses_s)
            log.error("worker died, started again number=%d exit_code=%d pause_s=%g", number, code, pause_s)
            await self._pause(pause_s, changed)

    async def _pause(self, pause_s: float, changed: int) -> None:
        """With watched files: until one of them changes, since the code is what is wrong."""
        until_s = time.monotonic() + pause_s
        while not self._stopping and self._changes == changed:
            if not self._watched and time.monotonic() >= until_s:
                return
            await asyncio.sleep(min(pause_s, LOOK_S))

    async def _start(self, number: int) -> WorkerProcess:
        read, write = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, "--worker", str(number), "--status-fd", str(write), pass_fds=(write,)
            )
        finally:
            os.close(write)
        worker = self._workers[number] = WorkerProcess(process, read)
        log.info("worker started number=%d pid=%d", number, process.pid)
        if self._stopping:
            worker.signal(signal.SIGTERM)
        return worker

    async def _watch(self) -> None:
        before = await asyncio.to_thread(_times_of, self._watched)
        while True:
            await asyncio.sleep(LOOK_S)
            now = await asyncio.to_thread(_times_of, self._watched)
            changed = sorted(str(path) for path, _ in now ^ before)
            if changed:
                log.info("files changed, starting anew files=%s", ",".join(dict.fromkeys(changed)))
                before = now
                self._changes += 1
                self._signal_all(signal.SIGTERM)


def _times_of(watched: Sequence[Path]) -> frozenset[tuple[Path, int]]:
    """Files that matter and when they were written."""
    found: set[tuple[Path, int]] = set()
    for root in watched:
        if root.is_file():
            with contextlib.suppress(OSError):
                found.add((root, root.stat().st_mtime_ns))
            continue
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith(".") and name not in _NOT_WATCHED]
            for name in files:
                if name.endswith(".py"):
                    path = Path(folder, name)
                    with contextlib.suppress(OSError):
                        found.add((path, path.stat().st_mtime_ns))
    return frozenset(found)
