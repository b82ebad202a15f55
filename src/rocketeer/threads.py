"""Blocking work in threads of the event loop's pool: nobody can stop it once it has begun."""

import asyncio
import contextvars
import logging
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any, ParamSpec, TypeVar, cast

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


async def finish_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread; a caller that is cancelled meanwhile ends when the work has ended.

    For work that changes files. `asyncio.to_thread` lets a cancelled caller go at once: whoever takes the lock that
    it held would then write the same files beside a thread that is still at it. Work that no thread has begun when
    its caller is cancelled is not done.
    """
    decided = Lock()  # taken once: by the thread that begins, or by the caller who will not have it begin

    def begin() -> T | None:
        if not decided.acquire(blocking=False):
            return None
        return context.run(partial(work, *args, **kwargs))

    context = contextvars.copy_context()
    ended = asyncio.get_running_loop().run_in_executor(None, begin)
    cancelled: asyncio.CancelledError | None = None
    while not ended.done():
        try:
            await asyncio.wait((ended,))
        except asyncio.CancelledError as error:
            if decided.acquire(blocking=False):
                raise
            cancelled = error
    if cancelled is None:
        return cast(T, ended.result())
    if (failed := ended.exception()) is not None:
        log.warning("work failed after its caller was cancelled", exc_info=failed)
    raise cancelled


class ThreadsInTurn:
    """Runs blocking work in threads, one after the other; a caller that is cancelled goes at once.

    What it began goes on, and the next begins when that has ended: of two writers of one file the later one wins.
    """

    def __init__(self) -> None:
        self._last: asyncio.Future[Any] | None = None

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        while self._last is not None and not self._last.done():
            await asyncio.wait((self._last,))
        context = contextvars.copy_context()
        running = asyncio.get_running_loop().run_in_executor(
            None, partial(context.run, partial(work, *args, **kwargs))
        )
        self._last = running
        return await asyncio.shield(running)
