"""Compiled transports for accepted connections, where they are installed; else asyncio's do, and only cost more."""

import asyncio
from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED_STREAMS

__all__ = ["SocketPoller", "Stream", "new_poller"]

if TYPE_CHECKING or COMPILED_STREAMS:
    from rocketeer.remoting._poller import SocketPoller
    from rocketeer.remoting._stream import Stream
else:
    Stream = SocketPoller = None


def new_poller(loop: asyncio.AbstractEventLoop) -> "SocketPoller | None":
    """A poller that `start` starts; None where asyncio's transports are used."""
    return SocketPoller(loop) if COMPILED_STREAMS else None
