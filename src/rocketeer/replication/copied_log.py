"""What copying another server's log asks of the store, for slaves and for members of a group."""

from collections.abc import Callable
from typing import Protocol

from rocketeer.errors import ReplicationError, StoreRefused
from rocketeer.model.offsets import LogOffset


class CopiedLog(Protocol):
    def append_raw(self, offset: LogOffset, data: memoryview) -> None:
        """Add bytes that follow the log, and dispatch; StoreError or StoreRefused, with nothing added."""
        ...

    def when_durable(self, log_offset: LogOffset, callback: Callable[[bool], None]) -> None: ...

    @property
    def max_log_offset(self) -> LogOffset: ...

    @property
    def failure(self) -> StoreRefused | None:
        """Why nothing more may be written to this store, if its disk has failed."""
        ...


def append_copied(store: CopiedLog, offset: LogOffset, data: memoryview, *, of: str) -> None:
    """Append bytes of the log of `of`, which must follow ours; ReplicationError for others."""
    failure = store.failure
    if failure is not None:
        raise ReplicationError(f"nothing is copied any more: {failure}")
    end = store.max_log_offset
    if end and offset != end:
        raise ReplicationError(f"the {of} sends its log at {offset}, and ours ends at {end}")
    store.append_raw(offset, data)
