"""Compiled transports for accepted connections, where they are installed; else asyncio's do, and only cost more."""

import asyncio
import sys
from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED

if TYPE_CHECKING:
    from rocketeer.remoting._stream import SocketPoller, Stream

__all__ = ["SocketPoller", "Stream", "new_poller"]

if not TYPE_CHECKING:
    if COMPILED and sys.platform == "linux":
        from rocketeer.remoting._stream import SocketPoller, Stream
    else:
        Stream = SocketPoller = None


def new_poller(loop: asyncio.AbstractEventLoop) -> "SocketPoller | None":
    """A poller that `start` starts; None where asyncio's transports are used."""
    return None if SocketPoller is None else SocketPoller(loop)
