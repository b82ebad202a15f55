from collections.abc import Callable

class BytesColumn:
    def __init__(
        self,
        offsets: memoryview[int],
        data: memoryview[int],
        valid: memoryview[int] | None,
        first: int,
        count: int,
        wide: bool,
    ) -> None: ...

class RowPacker:
    full: list[tuple[int, bytes, list[int]]]
    def __init__(
        self,
        *,
        topic: bytes,
        producer: bytes | None,
        queues: int,
        index: Callable[[int], int] | None,
        batch_bytes: int,
        batch_rows: int,
        message_bytes_max: int,
    ) -> None: ...
    def pack(
        self,
        at: int,
        end: int,
        first_row: int,
        bodies: BytesColumn,
        tags: BytesColumn | None,
        keys: BytesColumn | None,
        ids: BytesColumn | None,
        uniq_prefix: bytes,
        counters: list[int],
    ) -> int: ...
    def flush(self) -> None: ...
