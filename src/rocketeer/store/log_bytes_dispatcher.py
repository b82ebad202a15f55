"""What is derived from log bytes: between `ReplicaWriter` or recovery, which have them, and `Dispatch`.

Most messages are plain: nobody but their queue and the index wants to know of them. Compiled, these are read and
dispatched in runs (`log_bytes_runs.py`); all others, and all of them without a compiler, become entries.

A message is plain when its queue is known; it is the next of its queue; it is no part of a transaction and
points to no other message; no dispatcher follows its topic or one of its properties; its topic is ASCII, its tags
and keys are UTF-8; its hosts have IPv4 addresses; and its body is the one that its checksum is of. A queue is known
once a message of it has gone the general way, so that every dispatcher has heard of the queue.
"""

from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.store.log_bytes_plain import LogBytesDispatcher, LogPart

__all__ = ["LogBytesDispatcher", "LogPart"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.store.log_bytes_runs import LogBytesDispatcher
