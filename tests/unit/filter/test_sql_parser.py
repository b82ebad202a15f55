"""SQL92 expressions: what they mean, where they are wrong, and that no text can hurt the parser."""

import time

import pytest

from rocketeer.errors import BadSqlExpression, ConfigError
from rocketeer.filter.sql import SqlFilter, sql_filter, sql_subscription
from rocketeer.filter.sql_parser import parse_sql
from rocketeer.filter.sql_tokens import Bounds
from rocketeer.filter.sql_tree import DEPTH_MAX
from rocketeer.filter.subscribing import subscription_of


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a = 1 or b = 2 and c = 3", "(a = 1) OR ((b = 2) AND (c = 3))"),
        ("(a = 1 or b = 2) and c = 3", "((a = 1) OR (b = 2)) AND (c = 3)"),
        ("not a = 1", "(NOT (NOT (NOT a))) = 1"),
        ("NOT (a = 1)", "NOT (a = 1)"),
        ("a <> 'it''s'", "NOT (a = 'it''s')"),
        ("a between -1 and 2.5e3", "(a >= -1) AND (a <= 2500.0)"),
        ("a not between b and 7", "(a < b) OR (a > 7)"),
        ("a In ('x', 'y', 'x')", "a IN ('x', 'y')"),
        ("a NOT in ('x')", "a NOT IN ('x')"),
        ("a is not null", "NOT (a IS NULL)"),
        ("contains contains 'contains'", "contains CONTAINS 'contains'"),
        ("a not startswith 'x' or b endsWith 'y'", "(a NOT STARTSWITH 'x') OR (b ENDSWITH 'y')"),
        ("a /* b */ > -- c\n 5", "a > 5"),
        ("a > 5 -- the end", "a > 5"),
        ("a > --5", "a > -(-5)"),
        ("$a_1 = TRUE", "$a_1 = TRUE"),
        ("a = 1 = true", "(a = 1) = TRUE"),
    ],
)
def test_the_grammar_is_rocketmqs(text: str, meaning: str) -> None:
    assert str(parse_sql(text)) == meaning
    assert str(parse_sql(str(parse_sql(text)))) == str(parse_sql(text))


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 1, "the end where a property"),
        ("a >", 4, "the end"),
        ("a > > 5", 5, "'>' where"),
        ("a = 1 b = 2", 7, "'b' where an operator"),
        ("a LIKE 'x%'", 3, "'LIKE' where an operator"),
        ("(a = 1", 1, "not closed"),
        ("a = 1)", 6, "')' where"),
        ("a = 'x", 5, "no closing quote"),
        ("a = 1 /* x", 7, "the comment has no end"),
        ("a ! 1", 3, "unexpected character '!'"),
        ('a = "x"', 5, "unexpected character"),
        ("a = NULL", 9, "IS NULL"),
        ("a > 'x'", 5, "cannot be compared by >"),
        ("a between 10 and 1", 18, "above the upper bound"),
        ("a in (1)", 7, "a string"),
        ("5 in ('a')", 10, "IN wants a property"),
        ("a = 9223372036854775808", 5, "64 bits"),
        ("a = 1e999", 5, "larger than a double"),
        ("a = 0.0", 5, "write 0"),
        ("a = 007", 5, "starts with 0"),
        ("5", 2, "not a condition"),
        ("not 'x'", 5, "not a condition"),
        ("a and 'x'", 10, "not a condition"),
        ("TRUE = 5", 9, "cannot be compared with 5"),
        ("a is 5", 6, "'5' where 'NULL'"),
    ],
)
def test_a_bad_expression_is_refused_with_the_position(text: str, position: int, reason: str) -> None:
    with pytest.raises(BadSqlExpression) as error:
        SqlFilter(text)
    assert (error.value.position, error.value.expression) == (position, text)
    assert reason in error.value.reason
    assert f"at position {position}:" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + "a = 1" + ")" * 1000,
        "NOT " * 3000 + "(a = 1)",
        "a = " + "-" * 10_000 + "1",
        "a = " + "+" * 10_000 + "1",
        " OR ".join(f"a = {number}" for number in range(1000)),
        " AND ".join(["a <> 0"] * 999 + ["a = 1"]),
        "a IN (" + ", ".join(f"'{number}'" for number in range(1000)) + ")",
        "a = 1 " + "/* x */" * 1000,
        "(" * 500 + "a = 1" + " AND a > 0)" * 500,
    ],
    ids=["parentheses", "nots", "minus", "plus", "ors", "ands", "in", "comments", "nested ands"],
)
def test_long_and_deep_expressions_work(text: str) -> None:
    began_s = time.process_time()
    wanted = SqlFilter(text, Bounds(chars=1 << 20, terms=1 << 20))
    assert wanted.matches(b"a\x011")
    assert not wanted.matches(b"a\x01-7")
    assert time.process_time() - began_s < 2


def test_what_is_too_long_is_refused_with_the_setting_that_says_so() -> None:
    for text, key in (
        ("a = 1 OR " * 5000 + "a = 2", "limitSqlChars"),
        ("- " * 2000 + "1 = a", "limitSqlTerms"),
    ):
        with pytest.raises(BadSqlExpression, match=key):
            SqlFilter(text)
    SqlFilter("a IN (" + ", ".join(f"'{number}'" for number in range(1500)) + ")")
    SqlFilter(" OR ".join(f"a = {number}" for number in range(250)))


def test_expressions_that_are_remembered_are_few_and_short_together() -> None:
    first = sql_filter("a = 1 AND first = 1")
    texts = [
        "a IN (" + ", ".join(f"'{text}-{number}'" for number in range(1000)) + ")" for text in range(120)
    ]
    for text in texts:
        sql_filter(text)
    assert sql_filter(texts[-1]) is sql_filter(texts[-1])
    assert sql_filter("a = 1 AND first = 1") is not first


@pytest.mark.parametrize(
    "text",
    [
        "a" + " = a" * 3000,
        "(a = 1 AND (b = 2 OR " * 2000 + "a = 1" + "))" * 2000,
        "(" * 10_000,
        ")" * 10_000,
        "a = '" + "x" * 70_000 + "'",
        "0" * 60_000,
        "'" * 60_001,
        "/*" * 30_000,
        "--" * 30_000,
        "--\n" * 20_000,
        "a " * 10_000,
        "1e" * 20_000,
        "." * 60_000,
        "\x00" * 100,
        "\ud800",
        "NOT " * 10_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_what_cannot_be_used_is_refused_at_once(text: str) -> None:
    began_s = time.process_time()
    with pytest.raises(BadSqlExpression):
        SqlFilter(text)
    assert time.process_time() - began_s < 2


def test_only_operators_within_operators_count_as_depth() -> None:
    deep = "a = 1"
    for _ in range(DEPTH_MAX // 2 - 2):
        deep = f"(b = 2 OR ({deep} AND c IS NULL))"
    assert SqlFilter(deep).matches(b"a\x011")
    with pytest.raises(BadSqlExpression, match="nested more than"):
        SqlFilter(f"((({deep} = TRUE) = TRUE) = TRUE) = TRUE = TRUE = TRUE = TRUE")


def test_an_expression_is_compiled_once() -> None:
    assert sql_filter("a = 1") is sql_filter("a = 1")
    long = "a = 1 OR " * 200 + "a = 2"
    assert sql_filter(long).matches(b"a\x012")


def test_a_subscription_is_by_tags_or_by_expression() -> None:
    made = sql_subscription("T", "a = 1")
    assert (made.topic, made.expression, made.kind) == ("T", "a = 1", "SQL92")
    assert subscription_of("T", "x || y").tags == {"x", "y"}
    assert subscription_of("T", sql="a = 1").kind == "SQL92"
    with pytest.raises(ConfigError, match="put the tags into the expression"):
        subscription_of("T", "x", "a = 1")
    with pytest.raises(BadSqlExpression):
        subscription_of("T", sql="a =")
