"""What everything with `start` and `close` shares: `with` and `async with`, and running until a signal comes."""

import asyncio
import contextlib
import signal
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, Self


class ContextManaged(ABC):
    """Start at the beginning of a `with` block, close at its end."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def __repr__(self) -> str:
        return described(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ContextManagedAsync(ABC):
    """Start at the beginning of an `async with` block, close at its end."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    def __repr__(self) -> str:
        return described(self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def described(client: object) -> str:
    """A client for people who look at it: its kind, its group and where it looks for brokers."""
    kind = type(client)
    room = "rocketeer.aio." if issubclass(kind, ContextManagedAsync) else "rocketeer."
    config = getattr(client, "config", None)
    known = "" if config is None else f" {config.group!r} nameserver={config.nameserver!r}"
    return f"<{room}{kind.__name__}{known}>"


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C and SIGTERM set, for as long as the block runs."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    caught: list[signal.Signals] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not in the main thread, or not on this system: whoever runs us has to stop us.
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            loop.add_signal_handler(number, stop.set)
            caught.append(number)
    try:
        yield stop
    finally:
        for number in caught:
            loop.remove_signal_handler(number)


async def start_unless(stop: asyncio.Event, starting: Coroutine[Any, Any, None]) -> None:
    """Await the start, which may wait long for servers; the event ends it."""
    start = asyncio.ensure_future(starting)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((start, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        if not start.done():
            start.cancel()
            await asyncio.wait((start,))
    if not start.cancelled():
        start.result()
