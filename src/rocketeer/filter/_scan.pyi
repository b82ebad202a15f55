from collections.abc import Callable

from rocketeer.filter.sql_program import Row

class Scanner:
    def __init__(
        self, names: tuple[bytes, ...], rows: tuple[Row, ...], plain: Callable[[bytes], bool]
    ) -> None: ...
    def matches(self, properties: bytes) -> bool: ...
    def scan(
        self,
        entries: bytes,
        log: memoryview,
        base: int,
        count_max: int,
        bytes_max: int,
        record_cost: int,
        byte_cost: int,
        cost_max: int,
    ) -> tuple[int, list[tuple[int, int]]]: ...
