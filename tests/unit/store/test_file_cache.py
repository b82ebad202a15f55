"""Laws of the shared descriptors: few are open, nothing is lost by closing, files are whole."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.store.file_cache import AHEAD_BYTES, SYNC_ALL_AT, FileCache, delete_paths, sync_paths
from support.stores import memory_folder


def test_the_file_used_longest_ago_is_closed_first(tmp_path: Path) -> None:
    cache = FileCache(open_max=2)
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        cache.write(path, path.encode(), 0, 100)
    assert len(cache) == 2
    for path in paths:
        assert cache.read(path, len(path), 0) == path.encode()
    assert len(cache) == 2
    cache.close()
    assert len(cache) == 0
    assert cache.read(paths[0], 4, 0) == paths[0].encode()[:4]
    cache.close()


def test_a_missing_file_reads_as_nothing_and_is_not_made(tmp_path: Path) -> None:
    cache = FileCache()
    assert cache.read(str(tmp_path / "none" / "x"), 20, 0) == b""
    assert list(tmp_path.iterdir()) == []


def test_cutting_makes_zeros_to_the_end(tmp_path: Path) -> None:
    cache = FileCache()
    path = str(tmp_path / "x")
    cache.write(path, b"abcdef", 0, 10)
    cache.cut(path, 3, 10)
    assert cache.read(path, 99, 0) == b"abc" + bytes(7)
    cache.close()


def test_every_folder_made_on_the_way_is_named_for_syncing(tmp_path: Path) -> None:
    cache = FileCache()
    first, second = (str(tmp_path / "topic" / name / "x") for name in "01")
    cache.write(first, b"a", 0, 10)
    assert cache.take_unsynced() == sorted(
        map(str, [tmp_path, tmp_path / "topic", tmp_path / "topic" / "0", first])
    )
    cache.write(second, b"a", 0, 10)
    assert cache.take_unsynced() == sorted(map(str, [tmp_path / "topic", tmp_path / "topic" / "1", second]))
    cache.write(second, b"b", 1, 10)
    assert cache.take_unsynced() == [second]
    assert cache.read(second, 10, 0) == b"ab" + bytes(8)
    cache.close()


def test_what_was_deleted_needs_no_sync_and_no_second_deletion(tmp_path: Path) -> None:
    cache = FileCache()
    path = str(tmp_path / "sub" / "x")
    cache.write(path, b"a", 0, 10)
    paths = cache.take_unsynced()
    assert paths is not None
    assert paths == sorted({str(tmp_path), str(tmp_path / "sub"), path})
    cache.forget(path)
    assert delete_paths([path]) == 1
    sync_paths(paths)
    assert delete_paths([path, tmp_path / "sub"]) == 0


def test_the_names_of_many_files_are_not_remembered(tmp_path: Path) -> None:
    cache = FileCache()
    path = str(tmp_path / "x")
    for number in range(SYNC_ALL_AT - 1):
        cache.note_change(f"{number}")
    cache.note_change("0")
    paths = cache.take_unsynced()
    assert paths is not None
    assert len(paths) == SYNC_ALL_AT - 1
    for number in range(1_000):
        cache.note_change(f"{number}")
    cache.write(path, b"a", 0, 10)
    cache.forget(path)
    assert cache.take_unsynced() is None, "all of them are to be synced, whatever they were"
    cache.write(path, b"b", 0, 10)
    assert cache.take_unsynced() == [path]
    cache.close()


@settings(deadline=None, max_examples=200)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.integers(0, 5 * AHEAD_BYTES), st.integers(1, AHEAD_BYTES + 50)),
            st.tuples(st.just("read on"), st.integers(1, 9), st.integers(1, AHEAD_BYTES // 3)),
            st.tuples(st.just("write"), st.integers(0, 4 * AHEAD_BYTES), st.integers(1, 2000)),
            st.tuples(st.just("cut"), st.integers(0, 4 * AHEAD_BYTES), st.just(0)),
            st.tuples(st.just("other"), st.integers(0, 3), st.just(0)),
        ),
        max_size=40,
    )
)
def test_what_is_read_is_what_the_file_has_however_it_is_read_and_changed(
    steps: list[tuple[str, int, int]],
) -> None:
    whole = 4 * AHEAD_BYTES + 2000
    with memory_folder() as folder:
        cache, path, last = FileCache(open_max=2), f"{folder}/x", 0
        cache.write(path, b"begin", 0, whole)
        held = bytearray(b"begin".ljust(whole, b"\0"))
        for number, (what, at, size) in enumerate(steps, 1):
            if what == "write":
                data = bytes([number]) * size
                cache.write(path, data, at, whole)
                held[at : at + size] = data
            elif what == "cut":
                cache.cut(path, at, whole)
                held[at:] = bytes(whole - at)
            elif what == "other":
                assert cache.read(f"{folder}/{at}", 5, 0) == b""
                cache.write(f"{folder}/y{at}", b"y", 0, 10)
            else:
                for _ in range(at if what == "read on" else 1):  # from where the last read ended
                    at = last if what == "read on" else at
                    assert cache.read(path, size, at) == held[at : at + size]
                    last = at + size
        cache.close()


def test_what_was_read_ahead_is_forgotten_when_the_file_changes(tmp_path: Path) -> None:
    cache = FileCache()
    path = str(tmp_path / "x")
    cache.write(path, b"abcdefghij", 0, 10)
    assert [cache.read(path, 2, 0), cache.read(path, 2, 2)] == [b"ab", b"cd"]
    cache.write(path, b"EF", 4, 10)
    assert cache.read(path, 2, 4) == b"EF"
    assert [cache.read(path, 1, 0), cache.read(path, 1, 1)] == [b"a", b"b"]
    cache.cut(path, 3, 10)
    assert cache.read(path, 3, 2) == b"c\0\0"
    cache.close()
