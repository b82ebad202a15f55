"""What readers ask of queues: of consume queues, or of such that end at what is confirmed (`confirmed.py`)."""

from collections.abc import Callable
from typing import Protocol

from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.store.consume_queue_ext import ExtUnit
from rocketeer.store.queue_entry import QueueEntry


class ReadQueue(Protocol):
    """`ConsumeQueue` says what each does."""

    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def min_offset(self) -> QueueOffset: ...
    @property
    def max_offset(self) -> QueueOffset: ...

    def read(self, offset: QueueOffset, count: int) -> bytes: ...

    def entry(self, offset: QueueOffset) -> QueueEntry | None: ...

    def unit(self, code: int) -> ExtUnit | None: ...

    def put_right(self, offset: QueueOffset, entry: QueueEntry) -> None: ...

    def offset_by_time(self, store_ms: int, store_ms_of: Callable[[LogOffset, int], int]) -> QueueOffset: ...


class ReadQueues(Protocol):
    """The table of queues, as readers use it."""

    @property
    def entries_per_file(self) -> int: ...

    def get(self, topic: str, queue_id: int) -> ReadQueue | None: ...
