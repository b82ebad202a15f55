from typing import Any

from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.speed_plain import PlainProperties, Row
from rocketeer.record.speed_plain import find_marks as find_marks
from rocketeer.record.speed_plain import plain_properties as plain_properties
from rocketeer.record.speed_plain import split_batch as split_batch
from rocketeer.record.speed_plain import write_run as write_run

def key_columns(entries: list[DispatchEntry]) -> tuple[bytes, bytes, bytes]: ...
def read_send(
    header: bytes, claims: frozenset[str], cluster_property: str
) -> tuple[int, int, str, int, int, int, int, int, PlainProperties] | None: ...
def reply_frames(pieces: tuple[bytes, ...], rows: list[tuple[int, int, int, int]]) -> bytes: ...
def split_frames(data: bytes, limit: int) -> tuple[list[tuple[int, bytes, bytes]], int]: ...
def lay_out(
    rows: list[Row], lanes: dict[tuple[str, int], Any], bytes_max: int
) -> tuple[list[Any], list[bytes], list[int], list[int], dict[Any, int], int] | None: ...
