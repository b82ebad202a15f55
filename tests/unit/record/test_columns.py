"""The compiled columns of records and their plain twins are the same, and are what `decode_properties` reads."""

from array import array
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.compiled import COMPILED
from rocketeer.record import columns, columns_plain
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.record.properties import decode_properties

KINDS: list[Any] = [columns.steps, columns_plain]
texts = st.lists(st.text("ab\x01\x02", max_size=14).map(str.encode), max_size=8)


def spans(parts: list[bytes]) -> tuple[Any, Any, Any]:
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    begins = ends - np.array([len(part) for part in parts], dtype=np.int64)
    return np.frombuffer(b"".join(parts), dtype=np.uint8), begins, ends


def texts_of(column: tuple[bytes, bytes]) -> list[bytes]:
    ends = array("i")
    ends.frombytes(column[0])
    return [column[1][begin:end] for begin, end in pairwise(ends)]


def test_columns_are_compiled_where_the_rest_is() -> None:
    assert (columns.steps is not columns_plain) == COMPILED


@given(texts)
def test_properties_are_split_as_they_are_decoded(parts: list[bytes]) -> None:
    data, begin, end = spans(parts)
    found = [kind.split_properties(data, begin, end) for kind in KINDS]
    assert found[0] == found[1]
    starts, names, values = found[0]
    marks = array("i")
    marks.frombytes(starts)
    pairs = [*zip(texts_of(names), texts_of(values), strict=True)]
    assert [dict(pairs[a:b]) for a, b in pairwise(marks)] == [
        {name.encode(): value.encode() for name, value in decode_properties(part).items()} for part in parts
    ]
    assert len(pairs) == sum(len(decode_properties(part)) for part in parts), "no name twice"


@given(texts, st.sampled_from([b"a", b"b", b"ab", b"aa"]))
def test_a_property_is_found_where_it_is(parts: list[bytes], name: bytes) -> None:
    data, begin, end = spans(parts)
    found = []
    for kind in KINDS:
        value_begin, value_end = np.zeros(len(parts), dtype=np.int64), np.zeros(len(parts), dtype=np.int64)
        missing = kind.find_property(data, begin, end, name, value_begin, value_end)
        found.append((missing, value_begin.tolist(), value_end.tolist()))
    assert found[0] == found[1]
    wanted = [decode_properties(part).get(name.decode()) for part in parts]
    values = [
        None if first < 0 else bytes(data[first:stop]).decode()
        for first, stop in zip(found[0][1], found[0][2], strict=True)
    ]
    assert values == wanted
    assert found[0][0] == wanted.count(None)


@given(st.lists(st.binary(max_size=9), max_size=8), st.data())
def test_spans_are_gathered_in_any_order(parts: list[bytes], draw: st.DataObject) -> None:
    data, begin, end = spans(parts)
    order = np.array(draw.draw(st.permutations(range(len(parts)))), dtype=np.int64)
    found = [kind.gather(data, begin[order], end[order]) for kind in KINDS]
    assert found[0] == found[1]
    assert texts_of(found[0]) == [parts[at] for at in order]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (3, 2), (0, 4)])
def test_a_span_outside_the_bytes_is_an_error(kind: Any, begin: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"span 0 is"):
        kind.gather(
            np.zeros(3, dtype=np.uint8), np.array([begin], dtype=np.int64), np.array([end], dtype=np.int64)
        )


@given(st.integers(0, 4), st.integers(0, 300), st.binary(max_size=100))
def test_records_are_stepped_through_to_the_first_that_is_none(count: int, cut: int, garbage: bytes) -> None:
    one = PendingMessage(
        topic="T",
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_ms=0,
        born_host=bytes(8),
        body=b"x" * 30,
        properties=b"",
        reconsume_times=0,
    )
    record = encode_pending(one, queue_offset=0, log_offset=0, store_ms=0, store_host=bytes(8))
    data = record * count + garbage + record[:cut]
    found = [kind.step_through(data, 0, len(data)) for kind in KINDS]
    assert found[0] == found[1]
    offsets = np.frombuffer(found[0][0], dtype=np.int64).tolist()
    assert offsets[:count] == [at * len(record) for at in range(count)]
