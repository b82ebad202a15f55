"""Properties read as the reference reads them, however odd."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.filter.sql import sql_filter
from rocketeer.record.properties import decode_properties, encode_properties, find_property


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", {}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01b\x02c\x01d\x02\x02", {"a": "b", "c": "d"}),
        (b"alone\x02a\x01b", {"a": "b"}),
        (b"a\x01\x02b\x01c", {"b": "c"}),
        (b"\x01v\x02a\x01b", {"a": "b"}),
        (b"a\x01b\x01c", {"a": "b\x01c"}),
        (b"a\x011\x02a\x012", {"a": "2"}),
        (b"a\x011\x02a\x01", {"a": "1"}),
        (b"a\x01\xff", {"a": "\ufffd"}),
    ],
)
def test_pieces_are_read_as_the_reference_does(raw: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(raw) == expected
    for name in ("a", "b", "c", "alone"):
        found = find_property(raw, name.encode())
        assert (None if found is None else found.decode("utf-8", "replace")) == expected.get(name)


def test_a_name_inside_a_value_is_not_a_name() -> None:
    raw = b"x\x01TAGS\x01no\x02MY_TAGS\x01no\x02TAGS2\x01no"
    assert find_property(raw, b"TAGS") is None
    assert find_property(raw + b"\x02TAGS\x01yes", b"TAGS") == b"yes"


@pytest.mark.parametrize(
    "properties", [{"a": "b\x02c"}, {"a": "b\x01c"}, {"a\x01": "b"}, {"a": "b", "c\x02": "d"}]
)
def test_separators_in_names_or_values_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="separate properties"):
        encode_properties(properties)


def test_no_properties_are_no_bytes() -> None:
    assert encode_properties({}) == b""


@given(st.lists(st.sampled_from([b"a", b"ab", b"\x01", b"\x02", b"v"]), max_size=30).map(b"".join))
def test_one_property_is_what_all_of_them_say(raw: bytes) -> None:
    found = find_property(raw, b"a")
    assert (None if found is None else found.decode()) == decode_properties(raw).get("a")


@pytest.mark.parametrize("first", [b"", b"a\x011", b"\x02a\x011"])
def test_of_thousands_of_empty_values_none_counts(first: bytes) -> None:
    """Each took a call in a call, or a step of its own: a filter ended at 1,000 of them, a look took 9 ms."""
    raw = first + b"\x02a\x01" * 10_000
    began_s = time.thread_time()
    for _ in range(10):
        assert find_property(raw, b"a") == (b"1" if first else None)
    assert time.thread_time() - began_s < 0.04
    assert sql_filter("a = 1").matches(b"\x02" + raw) is bool(first)
