"""The compiled steps of sending and their plain twins give the same answers, whatever they are fed."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.errors import BadBatch
from rocketeer.record import speed_plain
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.properties import decode_properties
from rocketeer.store.index_slice import PrefixHashes, plain_key_columns

compiled: Any = pytest.importorskip(
    "rocketeer.record._speed", reason="installed without a C compiler: only the plain twin runs"
)

names = st.sampled_from(
    ["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "DELAY", "CLUSTER", "u", "", "größe", "KEYSx", "xTAGS"]
)
values = st.one_of(st.sampled_from(["", "true", "TRUE", "false", "3"]), st.text(max_size=12))
pieces = st.one_of(st.builds("{}\x01{}".format, names, values), st.text(alphabet="aT\x01", max_size=6))
texts = st.one_of(
    st.lists(pieces, max_size=8).map("\x02".join), st.text(alphabet="TAGSKEYW\x01\x02é", max_size=40)
)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None, max_examples=400)
@given(text=texts, claims=st.frozensets(st.sampled_from(["DELAY", "CLUSTER", "größe"])))
def test_plain_properties(text: str, claims: frozenset[str]) -> None:
    answer = compiled.plain_properties(text, claims, "CLUSTER\x01c")
    assert answer == speed_plain.plain_properties(text, claims, "CLUSTER\x01c")


def test_half_a_character_does_not_stop_a_message() -> None:
    text = "TAGS\x01a\ud800b\x02u\x01v"
    assert compiled.plain_properties(text, frozenset(), "C\x01c") == speed_plain.plain_properties(
        text, frozenset(), "C\x01c"
    )


@settings(deadline=None, max_examples=400)
@given(raw=st.one_of(texts.map(str.encode), st.binary(max_size=60)))
def test_marks_are_what_reading_all_properties_gives(raw: bytes) -> None:
    marks = compiled.find_marks(raw)
    assert marks == speed_plain.find_marks(raw)
    read = decode_properties(raw)
    assert marks == (read.get("TAGS"), read.get("KEYS", ""), read.get("UNIQ_KEY"), read.get("DELAY", ""))


items = st.lists(st.builds(BatchItem, i32, st.binary(max_size=30), st.binary(max_size=30)), max_size=6)


@settings(deadline=None, max_examples=300)
@given(body=st.one_of(items.map(encode_batch), st.binary(max_size=80)), cut=st.integers(0, 30))
def test_split_batch(body: bytes, cut: int) -> None:
    body = body[: len(body) - cut] if cut < len(body) and cut % 3 == 0 else body
    try:
        expected = speed_plain.split_batch(body)
    except BadBatch as error:
        with pytest.raises(BadBatch, match="^" + str(error)[:20]):
            compiled.split_batch(body)
    else:
        assert compiled.split_batch(body) == expected


hosts = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
rows = st.tuples(
    st.just("Topic"), i32, i32, i32, i64, hosts, st.binary(max_size=40), st.binary(max_size=40), i32, i64, i64,
    st.text(max_size=5), st.none() | st.text(max_size=5),
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(rows=st.lists(rows, max_size=5), at=st.integers(0, 20), queue_offset=i64, host=hosts, store_ms=i64)
def test_write_run(rows: list[Any], at: int, queue_offset: int, host: bytes, store_ms: int) -> None:
    bits = 0x20 if len(host) == 20 else 0
    topic_part = b"\x05Topic"
    heads = [88 + (12 if len(row[5]) == 20 else 0) + (12 if bits else 0) for row in rows]
    sizes = [head + 6 + 2 + len(row[6]) + len(row[7]) for head, row in zip(heads, rows, strict=True)]
    results = []
    for twin in (compiled, speed_plain):
        target = bytearray(sum(sizes) + 64)
        entries = twin.write_run(
            target,
            at,
            rows,
            [topic_part] * len(rows),
            sizes,
            [queue_offset] * len(rows),
            1 << 40,
            store_ms,
            host,
            bits,
        )
        results.append((bytes(target), entries))
    assert results[0] == results[1]


def test_a_run_that_does_not_fit_is_not_written() -> None:
    row = ("T", 0, 0, 0, 0, b"\0" * 8, b"body", b"", 0, 0, 0, "", None)
    with pytest.raises(ValueError, match="fit"):
        compiled.write_run(bytearray(50), 0, [row], [b"\x01T"], [96], [0], 0, 0, b"\0" * 8, 0)


words = st.text(alphabet=st.sampled_from("abk0 é世😀\ud800"), max_size=12)
entries = st.lists(
    st.builds(
        DispatchEntry, st.integers(0, 2**62), st.just(100), st.sampled_from(["T", "Größe", "😀"]), st.just(0),
        st.just(0), st.just(0), st.integers(0, 2**62), words, st.none() | words, st.sampled_from([0, 4, 8, 12]),
        st.just(0),
    ),
    max_size=30,
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(entries=entries)
def test_key_columns(entries: list[DispatchEntry]) -> None:
    plain = plain_key_columns(entries, PrefixHashes())
    hashes, offsets, times = compiled.key_columns(entries)
    assert np.frombuffer(hashes, np.int32).tolist() == plain[0].tolist()
    assert np.frombuffer(offsets, np.int64).tolist() == plain[1].tolist()
    assert np.frombuffer(times, np.int64).tolist() == plain[2].tolist()
