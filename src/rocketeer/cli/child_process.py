"""A process of ours that ends when its stdin does: by our will, or because this process is gone."""

import asyncio
import contextlib
import sys
from collections.abc import Callable


class ChildProcess:
    """Runs `rocketeer` with arguments; its stop is a closed pipe, then a kill."""

    STOP_S_MAX = 30.0

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None

    async def _spawn(self, *arguments: str, stdout: int) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rocketeer", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=stdout,
            # Ctrl-C reaches the whole foreground group; the parent alone decides in which order we stop.
            start_new_session=True,
        )
        return self._process

    def _report_end(self, report: Callable[[int], None]) -> None:
        """Have its exit code reported when it ends before it is stopped."""
        process = self._process
        assert process is not None

        async def watch() -> None:
            report(await process.wait())

        self._watch = asyncio.create_task(watch())

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._ask_to_stop(process)
        try:
            await asyncio.wait_for(process.wait(), self.STOP_S_MAX)
        except TimeoutError:
            self.kill()
            await process.wait()

    def _ask_to_stop(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        process.stdin.close()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
