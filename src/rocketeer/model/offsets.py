"""Two kinds of offsets, which mypy keeps apart: where a message stands in the log, and where in its queue.

Both are ints at run time. Sums and differences are plain ints again; whoever makes an offset of one says which.
What users hand in is any int: clients, `Admin`, commands and pages take it and say which of the two it is. Everything
behind that door, and whatever comes out of it, has its type (`tests/unit/test_offset_types.py`).
"""

from typing import NewType

LogOffset = NewType("LogOffset", int)
"""Bytes from the start of a broker's log: an int, which type checkers tell from other numbers."""

QueueOffset = NewType("QueueOffset", int)
"""Entries from the start of a queue: an int, which type checkers tell from other numbers."""
