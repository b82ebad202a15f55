"""Two kinds of offsets, which mypy keeps apart: where a message stands in the log, and where in its queue.

Both are ints at run time. Sums and differences are plain ints again; whoever makes an offset of one says which.
"""

from typing import NewType

LogOffset = NewType("LogOffset", int)
"""Bytes from the start of the log."""

QueueOffset = NewType("QueueOffset", int)
"""Entries from the start of a queue."""
