"""A filter on stored records: the properties are looked at where they stand in the log, nothing is decoded.

`matches` takes one record; `scan` a run of queue entries over a stretch of the log, which is how a pull with a
selective filter passes over thousands of messages in a millisecond.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketeer.compiled import COMPILED
from rocketeer.filter.scan_plain import Scanner as Scanner
from rocketeer.filter.scan_plain import find_properties
from rocketeer.filter.sql import SqlFilter
from rocketeer.filter.sql_program import PROGRAM_NAMES_MAX, Op, Program, ProgramRow, program_of
from rocketeer.model.offsets import LogOffset

if COMPILED and not TYPE_CHECKING:
    from rocketeer.filter._scan import Scanner

# What looking at messages costs, in about a nanosecond each; a scan must not keep others waiting for long.
_SCAN_COST_MAX: Final = 5_000_000
_PLAIN_TERM_COST: Final = 1_000
_ROW_COST: Final = 50
_NAME_BYTE_COST: Final = 4
"""Divisor of the cost of a property byte: each property is compared with each name of the expression."""
_NOTHING_COMPILED: Final = Program((), (ProgramRow(Op.PUNT),))


class Scanned(NamedTuple):
    """How many entries were looked at, and (log offset, size) of those that match."""

    looked_at: int
    found: list[tuple[LogOffset, int]]


class RecordFilter:
    """A test of properties, applied to records; a damaged record never matches."""

    __slots__ = ("_costs", "_scan", "matches_properties", "terms")

    def __init__(
        self, matches: Callable[[bytes], bool], terms: int = 1, program: Program = _NOTHING_COMPILED
    ) -> None:
        """`terms`: how much there is to evaluate for one message. `program`: what of `matches` can run compiled."""
        self.terms = max(terms, 1)
        scanner = Scanner(*program, matches)
        self._scan = scanner.scan
        self.matches_properties: Callable[[bytes], bool] = scanner.matches
        """The same of a record's properties."""
        plain_cost = self.terms * _PLAIN_TERM_COST
        record_cost = sum(
            plain_cost if row.op == Op.PUNT else _ROW_COST + len(row.texts) for row in program.rows
        )
        byte_cost = self.terms if program is _NOTHING_COMPILED else 1 + len(program.names) // _NAME_BYTE_COST
        self._costs = record_cost, byte_cost, _SCAN_COST_MAX

    def matches(self, record: memoryview) -> bool:
        properties = find_properties(record)
        return properties is not None and self.matches_properties(properties)

    def scan(
        self, entries: bytes, log: memoryview, base: LogOffset, count_max: int, bytes_max: int
    ) -> Scanned:
        """Test entries one after the other until `count_max` match, their records exceed `bytes_max` or time is up.

        `log` begins at log offset `base`; it ends, too, at an entry whose record does not lie in it.
        """
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
        program = program_of(sql.condition)
        if len(program.names) <= PROGRAM_NAMES_MAX:
            return RecordFilter(sql.matches, sql.terms, program)
    return RecordFilter(sql.matches, sql.terms)
