"""Blocking work in threads of the event loop's pool: nobody can stop it once it has begun."""

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def finish_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread; a caller that is cancelled meanwhile ends when the work has ended.

    For work that changes files. `asyncio.to_thread` lets a cancelled caller go at once: whoever takes the lock that
    it held would then write the same files beside a thread that is still at it.
    """
    context = contextvars.copy_context()
    ended = asyncio.get_running_loop().run_in_executor(None, partial(context.run, work, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not ended.done():
        try:
            await asyncio.wait((ended,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return ended.result()
    ended.exception()  # nobody asks for it any more
    raise cancelled
