"""Runs a filter over stored records in plain Python: what `_scan.pyx` does compiled."""

from collections.abc import Callable

from rocketeer.filter.sql_program import ProgramRow
from rocketeer.model.offsets import LogOffset
from rocketeer.record.layout import HEAD, QUEUE_ENTRY, head_of


def find_properties(record: memoryview) -> bytes | None:
    """The property bytes of a record; None if they would not lie within it."""
    size = len(record)
    if size < HEAD.size:
        return None
    body_at = head_of(record).size
    topic_at = body_at + int.from_bytes(
        record[body_at - 4 : body_at], "big"
    )  # the body's length ends the head
    if max(body_at, topic_at + 1) > size:
        return None
    length_at = topic_at + 1 + record[topic_at]
    start = length_at + 2
    properties_bytes = int.from_bytes(record[length_at:start], "big", signed=True)
    end = start + properties_bytes
    return bytes(record[start:end]) if properties_bytes >= 0 and end <= size else None


class Scanner:
    """One expression: `plain` is its function of property bytes. Names and rows are what the compiled twin runs."""

    def __init__(
        self, names: tuple[bytes, ...], rows: tuple[ProgramRow, ...], plain: Callable[[bytes], bool]
    ) -> None:
        self.matches = plain

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
    ) -> tuple[int, list[tuple[LogOffset, int]]]:
        """(how many entries were looked at, [(log offset, size)] of those that match).

        It ends, too, when what it looked at has cost `cost_max`: for each record and each byte of its properties.
        """
        matches = self.matches
        found: list[tuple[LogOffset, int]] = []
        looked_at = total = cost = 0
        for log_offset, size, _ in QUEUE_ENTRY.iter_unpack(
            entries[: len(entries) // QUEUE_ENTRY.size * QUEUE_ENTRY.size]
        ):
            at = log_offset - base
            if at < 0 or size <= 0 or at + size > len(log):  # a blank, or something else that is not plain
                break
            if found and (len(found) >= count_max or total + size > bytes_max):
                break
            if cost > cost_max:
                break
            looked_at += 1
            cost += record_cost
            properties = find_properties(log[at : at + size])
            if properties is None:
                continue
            cost += len(properties) * byte_cost
            if matches(properties):
                found.append((log_offset, size))
                total += size
        return looked_at, found
