from collections.abc import Callable, Container
from typing import Generic, Protocol, TypeVar

from rocketeer.record.speed_plain import QueueTail as QueueTail

O = TypeVar("O")
KeyColumns = tuple[bytes, bytes, bytes]
Later = tuple[int, int, int, list[int]]

class Log(Protocol):
    @property
    def max_offset(self) -> int: ...
    def make_room(self, size: int) -> int: ...

class Writer(Protocol):
    last_store_ms: int

class Index(Protocol):
    def extend_columns(self, columns: KeyColumns, messages: int, first: int, end: int) -> None: ...

class Lane:
    topic: str
    queue_id: int
    queue: QueueTail
    def __init__(self, topic: str, queue_id: int, queue: QueueTail) -> None: ...

class SendRuns(Generic[O]):
    enabled: bool
    is_open: bool
    on_open: Callable[[], object]
    on_full: Callable[[], object]
    def __init__(
        self,
        *,
        qualify: Callable[[str], int | None],
        lane_of: Callable[[str, int], Lane],
        writer: Writer,
        log: Log,
        index: Index | None,
        listeners: list[tuple[Container[tuple[str, int]], Callable[[str, int, int], None]]],
        claims: frozenset[str],
        cluster_property: str,
        store_host: bytes,
        pieces: tuple[bytes, ...],
        message_bytes_max: int,
    ) -> None: ...
    def forget(self) -> None: ...
    def take(self, data: bytes, owner: O) -> int: ...
    def store(
        self, now_ms: int, waits: bool
    ) -> tuple[int, list[tuple[O, bytes | None, list[Later] | None]]]: ...
    def __len__(self) -> int: ...
    def give_up(self) -> list[tuple[O, bytes]]: ...
    def replies(self, rows: list[Later], pieces: tuple[bytes, ...]) -> bytes: ...
