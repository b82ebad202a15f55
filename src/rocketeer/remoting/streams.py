"""Compiled transports for plain connections, where they are installed; else asyncio's do, and only cost more."""

import sys
from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED

if TYPE_CHECKING:
    from rocketeer.remoting._stream import SocketPoller, Stream

__all__ = ["SocketPoller", "Stream"]

if not TYPE_CHECKING:
    if COMPILED and sys.platform == "linux":
        from rocketeer.remoting._stream import SocketPoller, Stream
    else:
        Stream = SocketPoller = None
