from collections.abc import Callable

from rocketeer.filter.sql_program import ProgramRow
from rocketeer.model.offsets import LogOffset

class Scanner:
    def __init__(
        self, names: tuple[bytes, ...], rows: tuple[ProgramRow, ...], plain: Callable[[bytes], bool]
    ) -> None: ...
    def matches(self, properties: bytes) -> bool: ...
    def scan(
        self,
        entries: bytes,
        log: memoryview,
        base: LogOffset,
        count_max: int,
        bytes_max: int,
        record_cost: int,
        byte_cost: int,
        cost_max: int,
    ) -> tuple[int, list[tuple[LogOffset, int]]]: ...
