"""SQL92: any tree survives its text, and evaluates as a naive reference does, plain and compiled."""

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketeer.compiled import COMPILED
from rocketeer.errors import BadSqlExpression
from rocketeer.filter import scan_plain, sql_program
from rocketeer.filter import sql_tree as tree
from rocketeer.filter.java_numbers import compare_doubles, java_double, java_int, java_long
from rocketeer.filter.records import RecordFilter, record_filter
from rocketeer.filter.sql import SqlFilter
from rocketeer.filter.sql_compile import Incomparable
from rocketeer.filter.sql_parser import parse_sql
from rocketeer.filter.sql_program import program_of
from rocketeer.record.layout import StoredMessage, encode_record
from rocketeer.record.properties import encode_properties

PLAIN_PROGRAM = sql_program.Program((), (sql_program.ProgramRow(sql_program.Op.PUNT),))
names = st.sampled_from(["a", "b", "c_1", "$d", "contains"])
words = st.sampled_from(
    ["", "5", "-3", "1.5", "red", "TRUE", "it's", "é", "3000000000", "1e3", " 7"]
) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), max_size=6)
integers = st.integers(0, (1 << 63) - 1).map(lambda n: tree.integer(str(n))) | st.integers(0, 20).map(
    lambda n: tree.integer(str(n))
)
doubles = st.floats(min_value=1e-300, max_value=1e300).map(lambda value: tree.Constant("double", value))
texts = words.map(lambda text: tree.Constant("string", text))
truths = st.sampled_from([True, False]).map(lambda truth: tree.Constant("bool", truth))
properties_ = names.map(tree.Property)
numbers = integers | doubles | (integers | doubles).map(tree.negate)


def conditions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    operand = properties_ | numbers
    values = properties_ | numbers | texts | truths | inner
    return st.one_of(
        st.builds(tree.compare, st.sampled_from(["<", "<=", ">", ">="]), operand, operand),
        st.tuples(values, values).filter(_may_be_equal).map(lambda pair: tree.equal(*pair)),
        values.map(tree.is_null),
        st.builds(lambda p, w, n: tree.one_of(p, w, negated=n), properties_, st.lists(words, min_size=1, max_size=3), st.booleans()),
        st.builds(
            lambda op, node, text, n: tree.text_test(op, node, text, negated=n),
            st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]), values, words, st.booleans(),
        ),
        st.builds(tree.negation, inner | properties_),
        st.builds(tree.junction, st.sampled_from(["AND", "OR"]), st.lists(inner | properties_, min_size=2, max_size=4)),
    )  # fmt: skip


def _may_be_equal(pair: tuple[Any, Any]) -> bool:
    try:
        tree.equal(*pair)
    except tree.InvalidOperands:
        return False
    return True


trees = st.recursive(truths | properties_.map(tree.condition), conditions, max_leaves=12)
messages = st.dictionaries(names, words.filter(bool), max_size=5)


def naive(node: Any, message: dict[str, str]) -> Any:
    """The value of a node as Java computes it: a text, a number (with its Java type), a truth, None; or Incomparable."""
    match node:
        case tree.Constant(type="null"):
            return None
        case tree.Constant(type=kind, value=value):
            return value if kind in ("bool", "string") else (kind, value)
        case tree.Property(name=name):
            return message.get(name)
        case tree.Negate(operand=operand):
            value = naive(operand, message)
            return (value[0], -value[1]) if isinstance(value, tuple) else None
        case tree.Cast(operand=operand):
            return None if naive(operand, message) is None else False
        case tree.Not(operand=operand):
            truth = naive(operand, message)
            return None if truth is None else not truth
        case tree.Junction(op=op, terms=terms):
            ends = op == "OR"
            result: bool | None = not ends
            for term in terms:
                truth = naive(term, message)
                if truth is ends:
                    return ends
                result = None if truth is None else result
            return result
        case tree.IsNull(operand=operand):
            return naive(operand, message) is None
        case tree.In(operand=operand, values=values, negated=negated):
            value = naive(operand, message)
            return None if value is None else (value in values) != negated
        case tree.TextTest(op=op, operand=operand, search=search, negated=negated):
            if not search:
                return False
            value = naive(operand, message)
            if not isinstance(value, str):
                return False
            found = {"CONTAINS": search in value, "STARTSWITH": value.startswith(search)}
            return found.get(op, value.endswith(search)) != negated
        case tree.Equal(left=left, right=right):
            a, b = naive(left, message), naive(right, message)
            if a is None or b is None:
                return True if a is b else None if a is None else False
            return order(a, b) == 0
        case tree.Compare(op=op, left=left, right=right):
            a, b = naive(left, message), naive(right, message)
            if a is None or b is None:
                return None
            if isinstance(a, str) and isinstance(b, str):
                a, b = ("double", number(a, "double")), ("double", number(b, "double"))
            sign = order(a, b)
            return {"<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[op]
    raise AssertionError(node)


def number(text: str, kind: str) -> Any:
    value = {"int": java_int, "long": java_long, "double": java_double}[kind](text)
    if value is None:
        raise Incomparable
    return value


def order(a: Any, b: Any) -> int:
    if isinstance(a, bool) or isinstance(b, bool):
        if isinstance(a, bool) and isinstance(b, str):
            raise Incomparable
        if isinstance(a, str) and isinstance(b, bool):
            a = a.lower() == "true"
        return (a > b) - (a < b) if isinstance(a, bool) and isinstance(b, bool) else -1
    if isinstance(a, str) and isinstance(b, str):
        return (a > b) - (a < b)
    if isinstance(a, str):
        a = (b[0], number(a, b[0]))
    if isinstance(b, str):
        b = (a[0], number(b, a[0]))
    if "double" in (a[0], b[0]):
        return compare_doubles(float(a[1]), float(b[1]))
    return (a[1] > b[1]) - (a[1] < b[1])


@given(trees)
def test_a_tree_survives_its_text(condition: Any) -> None:
    assert parse_sql(str(condition)) == condition


@settings(max_examples=400)
@given(trees, messages)
def test_an_expression_evaluates_as_the_reference_does(condition: Any, message: dict[str, str]) -> None:
    wanted: object
    try:
        wanted = naive(condition, message)
    except Incomparable:
        wanted = "fails"
    compiled = SqlFilter(str(condition))
    raw = encode_properties(message)
    ours: object
    try:
        ours = compiled.truth(raw)
    except Incomparable:
        ours = "fails"
    assert ours == wanted
    assert compiled.matches(raw) is (wanted is True)
    if COMPILED:
        assert record_filter(compiled).matches_properties(raw) is (wanted is True)


@given(st.text(max_size=60) | st.text("ab=<>()'1.-+ \nNOTANDRIUL", max_size=60))
def test_any_text_is_an_expression_or_refused_with_a_place(text: str) -> None:
    try:
        SqlFilter(text).matches(b"a\x011\x02b\x01x")
    except BadSqlExpression as error:
        place = error.position
        assert 1 <= place <= len(text) + 1


@given(trees, st.lists(st.tuples(messages, st.binary(max_size=40), st.integers(0, 3)), min_size=1, max_size=12),
       st.integers(1, 8), st.integers(1, 2000))  # fmt: skip
@example(tree.Constant("bool", True), [({}, b"", 1)], 1, 1)  # the shortest record with an IPv6 host
def test_a_run_of_records_is_scanned_as_each_alone(
    condition: Any, stored: list[tuple[dict[str, str], bytes, int]], count_max: int, bytes_max: int
) -> None:
    compiled = SqlFilter(str(condition))
    log, entries, wanted, total = b"", b"", [], 0
    base = 1000
    looked_at = 0
    full = False
    for number_, (message, body, v6) in enumerate(stored):
        record = _record(message, body, v6, number_, base + len(log))
        full = full or (bool(wanted) and (len(wanted) >= count_max or total + len(record) > bytes_max))
        if not full:
            looked_at += 1
            if compiled.matches(encode_properties(message)):
                wanted.append((base + len(log), len(record)))
                total += len(record)
        entries += struct.pack(">qiq", base + len(log), len(record), 0)
        log += record
    for scanner in (RecordFilter(compiled.matches), record_filter(compiled)):
        assert scanner.scan(entries, memoryview(log), base, count_max, bytes_max) == (looked_at, wanted)
        # What points outside the log ends the run; nothing beyond it is touched.
        short = memoryview(log)[:-1]
        assert scanner.scan(entries, short, base, 99, 1 << 30).looked_at == len(stored) - 1


damage = st.lists(
    st.tuples(st.sampled_from([36, 39, 84, 85, 86, 87, 88, 89, 92]), st.integers(0, 255)), max_size=3
)


@pytest.mark.skipif(not COMPILED, reason="there is nothing to compare")
@given(
    trees,
    st.lists(st.tuples(messages, st.integers(0, 3), damage, st.integers(-130, 3)), min_size=1, max_size=6),
    st.integers(-3, 3),
)
def test_damaged_records_are_passed_over_alike(
    condition: Any, stored: list[tuple[dict[str, str], int, list[tuple[int, int]], int]], base: int
) -> None:
    from rocketeer.filter import _scan

    compiled = SqlFilter(str(condition))
    log, entries = b"", b""
    for message, v6, flips, wrong_size in stored:
        record = bytearray(_record(message, b"body", v6, 0, 0))
        for at, byte in flips:
            record[at] = byte
        entries += struct.pack(">qiq", len(log), len(record) + (wrong_size if wrong_size % 7 == 0 else 0), 0)
        log += record
    for program in (program_of(compiled.condition), PLAIN_PROGRAM):
        for cost_max in (1 << 40, 1_500):
            limits = (base, 9, 1 << 20, 500, 1, cost_max)
            assert _scan.Scanner(*program, compiled.matches).scan(
                entries, log, *limits
            ) == scan_plain.Scanner(*program, compiled.matches).scan(entries, memoryview(log), *limits)


def test_a_body_that_does_not_lie_in_its_record_makes_no_trouble() -> None:
    """Its length is -1, or 100000: no properties can be found, the record is looked at and not taken."""
    record = _record({"a": "1"}, b"body", 0, 0, 0)
    entry = struct.pack(">qiq", 0, len(record), 0)
    for body_bytes in (-1, 100_000):
        damaged = record[:84] + struct.pack(">i", body_bytes) + record[88:]
        for each in (RecordFilter(lambda properties: True), record_filter(SqlFilter("TRUE"))):
            assert each.scan(entry, memoryview(damaged), 0, 9, 1 << 20) == (1, [])
            assert not each.matches(memoryview(damaged))
            for size in (0, -5):
                blank = struct.pack(">qiq", 0, size, 0)
                assert each.scan(blank, memoryview(record), 0, 9, 1 << 20) == (0, [])


def test_the_compiled_evaluator_knows_rows_by_the_same_numbers() -> None:
    source = Path(sql_program.__file__).with_name("_scan.pyx").read_text()
    numbers = {name: int(text) for name, text in re.findall(r"^    ([A-Z_]+) = (-?\d+)", source, re.M)}
    named = ("TRUE", "FALSE", "UNKNOWN", "PROGRAM_NAMES_MAX")
    own = {"FAILED", "RARE", "DOUBLE_BYTES_MAX"}
    drawn = {op.name: op.value for op in sql_program.Op} | {
        name: getattr(sql_program, name) for name in named
    }
    assert {name: number for name, number in numbers.items() if name not in own} == drawn
    orders = {
        name: getattr(sql_program, name) for name in ("LESS", "LESS_OR_EQUAL", "GREATER", "GREATER_OR_EQUAL")
    }
    answers = {"LESS": "less", "LESS_OR_EQUAL": "less or same", "GREATER": "not less and not same",
               "GREATER_OR_EQUAL": "not less"}  # fmt: skip
    for name, order in orders.items():
        assert f"if order == {order}:\n        return {answers[name]}\n" in source
    assert sql_program.SAME == 4


def _record(message: dict[str, str], body: bytes, v6: int, number_: int, log_offset: int) -> bytes:
    born = b"\0" * (20 if v6 & 1 else 8)
    host = b"\0" * (20 if v6 & 2 else 8)
    return encode_record(
        StoredMessage(
            topic="T", queue_id=0, queue_offset=number_, log_offset=log_offset, size=0, flag=0, sys_flag=v6 << 4,
            born_ms=0, born_host=born, store_ms=0, store_host=host, reconsume_times=0, prepared_offset=0, body_crc=0,
            body=body, properties=encode_properties(message),
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    "odd", [b"", b"\x02", b"a", b"a\x01", b"\x01x", b"a\x011\x02a\x01", b"xa\x011", b"a\x01\xff"]
)
def test_odd_properties_are_read_as_everywhere(odd: bytes) -> None:
    for expression, wanted in (
        ("a = '1'", odd == b"a\x011\x02a\x01"),
        ("a IS NULL", odd[:3] not in (b"a\x011", b"a\x01\xff")),
    ):
        compiled = SqlFilter(expression)
        assert compiled.matches(odd) is wanted
        assert record_filter(compiled).matches_properties(odd) is wanted
