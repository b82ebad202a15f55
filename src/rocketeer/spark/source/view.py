"""What planning asks of wherever the messages are: brokers (`brokers.py`) or a store's files (`store_view.py`)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.offsets import QueueOffsets
from rocketeer.spark.source.planning import QueueRange

SourceLocation: TypeAlias = "str | StorePlace"
"""A broker's address, or files."""

if TYPE_CHECKING:
    from rocketeer.spark.source.store_view import StorePlace


class SourceView(Protocol):
    """The driver's view; every call may block and raise RocketeerError."""

    @property
    def has_answered(self) -> bool:
        """Whether the queues were ever found."""

    def broker_label(self, error: Exception) -> str:
        """The broker an error is about, by its name where that is known."""

    def queues(self) -> frozenset[MessageQueue]:
        """Every queue the options choose, as of now."""

    def check_filter(self, queues: Iterable[MessageQueue]) -> None:
        """Raise what brokers refuse the options' filter with."""

    def lows(self, queues: Iterable[MessageQueue]) -> QueueOffsets:
        """The oldest offset still there, for each queue that can be asked."""

    def highs(self, queues: Iterable[MessageQueue]) -> QueueOffsets:
        """The offset of the next message to come, for each queue that can be asked."""

    def has_master(self, queue: MessageQueue) -> bool:
        """Whether what it says of the queue is final: a slave whose master is away may lag behind it."""

    def first_at(self, queue: MessageQueue, time_ms: int) -> QueueOffset | None:
        """The first offset stored at that time or later; None if there is none."""

    def stored_ms(self, queue: MessageQueue, offset: QueueOffset) -> int | None:
        """When the message there was stored; None if it is gone, or not there yet."""

    def mean_bytes(self, queue: MessageQueue, offset: QueueOffset) -> float:
        """About how large messages are there."""

    def place(self, piece: QueueRange) -> SourceLocation:
        """Where an executor reads the range."""

    def commit(self, group: str, places: QueueOffsets) -> None:
        """Show how far the group has come."""

    def close(self) -> None: ...
