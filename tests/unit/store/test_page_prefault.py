"""Pages are in memory before the log is written to them, and the thread that sees to it holds nobody up."""

import contextlib
import ctypes
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketeer.store import page_prefault, segment_preparer
from rocketeer.store.kernel import address_of
from rocketeer.store.page_prefault import PagePrefault
from rocketeer.store.segment import Segment
from support.stores import bodies, message, open_store

WAIT_S = 60
SIZE = 8 << 20

pytestmark = [
    pytest.mark.skipif(page_prefault._start is None, reason="without a compiler nothing is touched"),
    pytest.mark.on_disk,  # a page of a file in memory is there or was never written
]


@pytest.fixture
def toucher() -> Iterator[PagePrefault]:
    toucher = PagePrefault()
    toucher.start()
    yield toucher
    toucher.close()


def until(holds: Callable[[], bool]) -> None:
    for _ in range(WAIT_S * 100):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came true")


def in_memory(segment: Segment, end: int) -> bool:
    """Whether the kernel holds all of the file's pages below `end`."""
    assert segment.map is not None
    pages = ctypes.create_string_buffer((end + 4095) // 4096)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(address_of(segment.map)), ctypes.c_size_t(end), pages) == 0
    return all(page & 1 for page in pages.raw)


def new_segment(folder: Path, base: int = 0) -> Segment:
    segment = Segment.create(folder, base, SIZE)
    segment.reserve(SIZE)
    segment.sync(0, SIZE)
    return segment


def descriptors(path: Path) -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}") == str(path)
        except FileNotFoundError:
            continue
    return count


def test_what_is_allocated_comes_into_memory(tmp_path: Path, toucher: PagePrefault) -> None:
    segment = new_segment(tmp_path)
    assert not in_memory(segment, SIZE)
    own = descriptors(segment.path)
    toucher.request(segment)
    until(lambda: in_memory(segment, SIZE))
    until(lambda: descriptors(segment.path) == own)
    segment.unmap()


def test_nothing_is_ordered_twice(tmp_path: Path, toucher: PagePrefault) -> None:
    first, second = new_segment(tmp_path), new_segment(tmp_path, SIZE)
    for _ in range(3):
        toucher.request(first)
        toucher.request(second)
    assert toucher._told == 2 * SIZE
    until(lambda: in_memory(second, SIZE))
    second.reserved = 0  # nothing new: no order, whatever it says
    toucher.request(second)
    assert toucher._told == 2 * SIZE
    first.unmap()
    second.unmap()


def test_a_file_that_is_gone_and_a_pipe_that_is_full_cost_nothing(
    tmp_path: Path, toucher: PagePrefault
) -> None:
    segment = new_segment(tmp_path)
    segment.path.unlink()
    toucher.request(segment)
    assert toucher._told == 0
    segment.unmap()

    another = new_segment(tmp_path, SIZE)
    read_end, write_end = os.pipe2(os.O_NONBLOCK)
    thread, toucher._pipe = toucher._pipe, write_end
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    own = descriptors(another.path)
    toucher.request(another)
    assert (toucher._told, descriptors(another.path)) == (0, own), "to be ordered again later"
    toucher._pipe = thread
    os.close(read_end)
    os.close(write_end)
    another.unmap()


def test_it_ends_in_the_middle_of_its_work(tmp_path: Path) -> None:
    """Orders that it did not get to leave no descriptor open."""
    segments = [new_segment(tmp_path, number * SIZE) for number in range(40)]
    toucher = PagePrefault()
    toucher.start()
    own = [descriptors(segment.path) for segment in segments]
    for segment in segments:
        toucher.request(segment)
    toucher.close()
    toucher.close()
    until(lambda: [descriptors(segment.path) for segment in segments] == own)
    for segment in segments:
        segment.unmap()


def test_the_more_is_written_the_further_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_preparer, "AHEAD_BYTES", 1 << 20)
    monkeypatch.setattr(segment_preparer, "AHEAD_BYTES_MAX", 12 << 20)
    store, _ = open_store(tmp_path, segment_bytes=32 << 20, message_bytes_max=1 << 20)
    store.append(message(b"x"))
    first = store.log.segments[0]
    until(lambda: 1 << 20 <= first.reserved <= 2 << 20)
    for _ in range(80):
        store.append(message(b"x" * 100_000))
    written = store.log.max_offset
    store.log._preparer.look_ahead(first, written)
    until(lambda: first.reserved >= 2 * written - (1 << 20))
    assert first.reserved <= written + (12 << 20)
    until(lambda: in_memory(first, first.reserved))
    store.close()


def test_several_files_are_ready_for_a_log_that_grows_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_preparer, "AHEAD_BYTES", 1 << 20)
    segment_bytes = 2 << 20
    store, _ = open_store(tmp_path / "store", segment_bytes=segment_bytes, message_bytes_max=1 << 20)
    count = 0
    while len(store.log.segments) < 5:
        store.append(message(b"%d" % count * 20_000))
        count += 1
    files = tmp_path / "store" / "commitlog"
    used = len(store.log.segments)
    until(lambda: len(list(files.iterdir())) == used + segment_preparer.SEGMENTS_AHEAD_MAX)
    names = sorted(path.name for path in files.iterdir())
    assert names == [f"{number * segment_bytes:020d}" for number in range(len(names))]

    shutil.copytree(tmp_path / "store", tmp_path / "crashed")  # as it would be found after kill -9
    again, _ = open_store(tmp_path / "crashed", segment_bytes=segment_bytes, message_bytes_max=1 << 20)
    assert len(bodies(again)) == count
    assert again.log.max_offset == store.log.max_offset
    again.append(message(b"more"))
    assert bodies(again)[-1] == b"more"
    again.close()

    while len(store.log.segments) < used + 2:  # they are taken in their order
        store.append(message(b"x" * 50_000))
    store.close()
    assert len(list(files.iterdir())) == used + 2, "what was not used is gone"
