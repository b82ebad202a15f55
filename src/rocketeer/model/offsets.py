"""Two kinds of offset that must never be mixed, as types of their own; used from store to client."""

from typing import NewType

LogOffset = NewType("LogOffset", int)
"""Bytes from the start of the commit log."""

QueueOffset = NewType("QueueOffset", int)
"""Entries from the start of one queue."""
