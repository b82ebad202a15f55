"""The vectorised index writes, byte for byte, what one key at a time would write."""

from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketeer.record.entry import DispatchEntry
from rocketeer.record.java_hash import index_hash, java_hash
from rocketeer.store.hash_columns import hash_keys
from rocketeer.store.index import Index
from support.clock import ManualClock
from support.index_reference import content_of, entry, reference_files
from support.indexes import query
from support.stores import memory_folder

BASE_MS = 1_700_000_000_000
texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
few_words = st.sampled_from(["a", "b", "Aa", "BB", "AaBB", "BBAa", "polygenelubricants", "é", "𝄞"])
keys = st.lists(few_words | texts, max_size=4).map(" ".join)


@st.composite
def message_lists(draw: st.DrawFn) -> list[DispatchEntry]:
    drawn = draw(
        st.lists(
            st.tuples(
                keys,
                st.none() | few_words | texts,
                st.sampled_from(["T", "Topic", "%RETRY%G"]),
                st.integers(-5_000, 5_000_000),
                st.sampled_from([0, 0, 0, 4, 8, 12]),
            ),
            max_size=40,
        )
    )
    return [
        entry(n * 100, keys=words, uniq=uniq, topic=topic, store_ms=BASE_MS + ms, sys_flag=flag)
        for n, (words, uniq, topic, ms, flag) in enumerate(drawn)
    ]


@settings(max_examples=150, deadline=None)
@given(
    messages=message_lists(),
    slots=st.integers(1, 40),
    entries=st.integers(2, 60),
    slices=st.lists(st.integers(1, 9), min_size=1, max_size=5),
)
def test_many_at_once_are_the_same_bytes_as_one_by_one(
    messages: list[DispatchEntry], slots: int, entries: int, slices: list[int]
) -> None:
    with memory_folder() as home:
        folder = Path(home) / "index"
        index = Index(folder, slots, entries, ManualClock())
        for message in messages:
            index.add(message)
        turn = 0
        while index.pending_count:
            index.flush_pending(slices[turn % len(slices)])
            turn += 1
        index.close()
        expected = [file.content() for file in reference_files(messages, slots, entries)]
        paths = sorted(folder.iterdir()) if folder.exists() else []
        assert [content_of(path, slots, entries) for path in paths] == expected


@settings(max_examples=60, deadline=None)
@given(messages=message_lists(), data=st.data())
def test_a_query_finds_every_message_with_the_key_newest_first(
    messages: list[DispatchEntry], data: st.DataObject
) -> None:
    slots, entries = data.draw(st.integers(1, 20)), data.draw(st.integers(2, 30))
    with memory_folder() as home:
        index = Index(home, slots, entries, ManualClock())
        for message in messages:
            index.add(message)
        for topic, key in {("T", "a"), ("T", "Aa"), ("Topic", "BB")}:
            found = query(index, topic, key, 0, 1 << 60, 1000)
            wanted = [
                message.log_offset
                for message in reversed(messages)
                if message.topic == topic
                and message.sys_flag & 0xC != 0xC
                and (message.uniq_key == key or key in message.keys.split(" "))
            ]
            assert found == sorted(found, reverse=True)
            assert set(wanted) <= set(found)
        index.close()


@given(st.lists(st.tuples(texts, texts)))
@example([("", "")])
@example([("p", "x" * 300), ("", "𝄞" * 200)])
@example([("p", "x" * 70_000), ("q", "y"), ("r", "𝄞z" * 40_000)])
@settings(deadline=None)
def test_hashes_are_javas_for_any_text_of_any_length(pairs: list[tuple[str, str]]) -> None:
    prefixes = np.array([java_hash(prefix) & 0xFFFFFFFF for prefix, _ in pairs], np.uint32)
    expected = [java_hash(prefix + key) & 0xFFFFFFFF for prefix, key in pairs]
    assert hash_keys([key for _, key in pairs], prefixes).tolist() == expected


def test_the_hash_without_a_positive_twin_is_zero() -> None:
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert index_hash("polygenelubricants") == 0
