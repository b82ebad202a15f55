"""SQL text and ranges of tables: laws of the pure parts of the jobs `query` and `transform`."""

import doctest

from hypothesis import given
from hypothesis import strategies as st

from rocketeer.spark.jobs.lake.state import Range, merged
from rocketeer.spark.jobs.query import json_bodies, sql_text
from rocketeer.spark.jobs.query import ranges as table_ranges
from rocketeer.spark.jobs.query.ranges import gaps, newest, reads
from rocketeer.spark.jobs.query.sql_text import all_statements, quoted, split_statements, unquoted_parts
from rocketeer.spark.jobs.results import cell, table_lines

from rocketeer.model.queue import MessageQueue  # isort: skip

ranges = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=6).map(
    lambda pairs: merged(Range(begin, begin + size) for begin, size in pairs)
)
pieces = st.lists(
    st.sampled_from(
        ["a", ";", "'", '"', "`", "--", "/*", "*/", "\n", "\\", " ", "';'", "`;`", "-- ;\n", "/* ; */"]
    )
).map("".join)


def test_the_examples_in_the_docstrings() -> None:
    for module in (sql_text, table_ranges, json_bodies):
        assert doctest.testmod(module).failed == 0


@given(pieces)
def test_statements_and_the_rest_are_the_text(text: str) -> None:
    done, rest = split_statements(text)
    assert text.endswith(rest)
    for statement in done:
        assert statement in text
        assert all_statements(statement) == [statement], "a statement is not split again"


@given(
    st.lists(
        st.sampled_from(["select ';' from `a;b`", 'select ";"', "select 1 -- ;", "select /* ; */ 2"]),
        min_size=1,
    )
)
def test_a_semicolon_in_quotes_and_comments_ends_nothing(statements: list[str]) -> None:
    assert all_statements("\n;\n".join(statements)) == statements


def test_a_quote_without_an_end_waits_for_more() -> None:
    assert split_statements("select 'a;") == ([], "select 'a;")
    assert split_statements("select /* ;") == ([], "select /* ;")
    assert all_statements(" ; -- nothing\n;") == []


@given(st.text(min_size=1))
def test_a_quoted_name_is_read_back(name: str) -> None:
    assert unquoted_parts(quoted(name)) == [name]


@given(ranges, st.integers(0, 50), st.integers(0, 50))
def test_the_lake_and_the_gaps_are_the_queue_each_offset_once(
    archived: list[Range], low: int, high: int
) -> None:
    live = [offset for one in gaps(archived, low, high) for offset in range(one.begin, one.end)]
    stored = {offset for one in archived for offset in range(one.begin, one.end)}
    assert live == [offset for offset in range(low, high) if offset not in stored]


@given(st.lists(ranges, max_size=4))
def test_reads_take_every_range_once(of_queues: list[list[Range]]) -> None:
    wanted = {MessageQueue("T", "b", number): some for number, some in enumerate(of_queues)}
    taken = [(queue, one) for read in reads(wanted) for queue, one in read.items()]
    assert sorted(taken) == sorted((queue, one) for queue, some in wanted.items() for one in some)
    assert len(reads(wanted)) == max((len(some) for some in of_queues), default=0)
    for queue, last in newest(wanted, 10).items():
        assert last[0].end == wanted[queue][-1].end


def test_a_cell_is_one_short_line_whatever_the_bytes() -> None:
    assert cell(None) == "NULL"
    assert cell(b"caf\xc3\xa9\n") == "caf\u00e9\\n"
    assert cell(b"\xff\x00") == "X'FF00'"
    assert cell("\x1b[31m") == "\ufffd[31m", "nothing that a terminal obeys"
    assert len(cell("x" * 1000)) == 120
    assert list(table_lines(["a", "n"], [("x", "10"), ("yy", "9")], [False, True])) == [
        "a  |  n", "---+---", "x  | 10", "yy |  9",
    ]  # fmt: skip
