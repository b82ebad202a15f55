"""A compiled filter on stored records: the properties are looked at where they stand in the log, nothing is decoded.

`matches` takes one record; `scan` a run of queue entries over a stretch of the log, which is how a pull with a
selective filter passes over thousands of messages in a millisecond.
"""

from collections import OrderedDict
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketeer.compiled import COMPILED
from rocketeer.filter.sql import SqlFilter
from rocketeer.filter.sql_program import Op, program_of
from rocketeer.record.layout import QUEUE_ENTRY, head_of

if TYPE_CHECKING or COMPILED:
    from rocketeer.filter._scan import Scanner

_i32: Final = Struct(">i").unpack_from
_i16: Final = Struct(">h").unpack_from


# What looking at messages costs, in about a nanosecond each; a scan must not keep others waiting for long.
_SCAN_COST_MAX: Final = 5_000_000
_PLAIN_TERM_COST: Final = 1_000
_ROW_COST: Final = 50
_NAME_BYTE_COST: Final = 4
"""Of a property byte, divided: each property is compared with each name of the expression."""


class Scanned(NamedTuple):
    """How many entries were looked at, and (log offset, size) of those that match."""

    looked_at: int
    found: list[tuple[int, int]]


def properties_of(log: memoryview, at: int = 0) -> bytes:
    """The property bytes of the record at `at`. The record is whole: recovery and the writer see to that."""
    body_at = at + head_of(log, at).size
    topic_at = body_at + _i32(log, body_at - 4)[0]  # the body's length ends the head
    length_at = topic_at + 1 + log[topic_at]
    start = length_at + 2
    return bytes(log[start : start + _i16(log, length_at)[0]])


class RecordFilter:
    """A test of properties, applied to records."""

    __slots__ = ("_matches", "terms")

    def __init__(self, matches: Callable[[bytes], bool], terms: int = 1) -> None:
        """`terms`: how much there is to evaluate for one message."""
        self._matches = matches
        self.terms = max(terms, 1)

    def matches(self, record: memoryview) -> bool:
        return self._matches(properties_of(record))

    def wants(self, properties: bytes) -> bool:
        """The same of a record's properties."""
        return self._matches(properties)

    def scan(self, entries: bytes, log: memoryview, base: int, count_max: int, bytes_max: int) -> Scanned:
        """Test entries one after the other until `count_max` match, their records exceed `bytes_max` or time is up.

        `log` begins at log offset `base`; it ends, too, at an entry whose record does not lie in it.
        """
        matches = self._matches
        found: list[tuple[int, int]] = []
        total = cost = 0
        looked_at = 0
        for log_offset, size, _ in QUEUE_ENTRY.iter_unpack(entries):
            at = log_offset - base
            if at < 0 or at + size > len(log):  # a blank, or something else that is not plain
                break
            if found and (len(found) >= count_max or total + size > bytes_max):
                break
            if cost > _SCAN_COST_MAX:
                break
            looked_at += 1
            properties = properties_of(log, at)
            cost += self.terms * (_PLAIN_TERM_COST + len(properties))
            if matches(properties):
                found.append((log_offset, size))
                total += size
        return Scanned(looked_at, found)


class CompiledRecordFilter(RecordFilter):
    """The same with the loop in C; see `_scan.pyx`."""

    __slots__ = ("_costs", "_scan")

    def __init__(self, sql: SqlFilter) -> None:
        program = program_of(sql.condition)
        scanner = Scanner(program.names, program.rows, sql.matches)
        super().__init__(scanner.matches, sql.terms)
        self._scan = scanner.scan
        row_costs = [
            sql.terms * _PLAIN_TERM_COST if row.op == Op.PUNT else _ROW_COST + len(row.texts)
            for row in program.rows
        ]
        self._costs = sum(row_costs), 1 + len(program.names) // _NAME_BYTE_COST, _SCAN_COST_MAX

    def scan(self, entries: bytes, log: memoryview, base: int, count_max: int, bytes_max: int) -> Scanned:
        return Scanned(*self._scan(entries, log, base, count_max, bytes_max, *self._costs))


_remembered: OrderedDict[SqlFilter, RecordFilter] = OrderedDict()
_remembered_chars = 0
_REMEMBERED_MAX: Final = 1024
_REMEMBERED_CHARS_MAX: Final = 1 << 19


def record_filter(sql: SqlFilter) -> RecordFilter:
    """The expression as a test of records; the same again, unless many others were asked for since."""
    global _remembered_chars
    known = _remembered.get(sql)
    if known is not None:
        _remembered.move_to_end(sql)
        return known
    made = _remembered[sql] = _record_filter(sql)
    _remembered_chars += len(sql.expression)
    while len(_remembered) > _REMEMBERED_MAX or _remembered_chars > _REMEMBERED_CHARS_MAX:
        oldest, _ = _remembered.popitem(last=False)
        _remembered_chars -= len(oldest.expression)
    return made


def _record_filter(sql: SqlFilter) -> RecordFilter:
    if COMPILED:
        try:
            return CompiledRecordFilter(sql)
        except ValueError:  # more properties than it has room for
            pass
    return RecordFilter(sql.matches, sql.terms)
