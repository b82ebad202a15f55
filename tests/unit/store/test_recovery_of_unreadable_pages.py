"""A start that meets pages which the disk does not give back: what stands on them is lost, and nothing else."""

import errno
import os
from pathlib import Path

import pytest

from rocketeer.errors import StoreError
from rocketeer.store import segment as segment_module
from rocketeer.store.segment import PAGE_BYTES, Segment, can_read
from support.stores import SEGMENT_BYTES, make_store, message, read_queue

COUNT = 100
BODY_BYTES = 1_500


class BadDisk:
    """One page of a file gives EIO until it is written anew, as disks do that have sectors to spare."""

    def __init__(self, path: Path, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.start, self.end = page * PAGE_BYTES, (page + 1) * PAGE_BYTES
        self.is_bad = self.heals = True
        self.asked = 0
        self._pread, self._pwrite = os.pread, os.pwrite
        monkeypatch.setattr(os, "pread", self.pread)
        monkeypatch.setattr(os, "pwrite", self.pwrite)
        monkeypatch.setattr(segment_module, "can_read", self.can_read)
        readable_until = Segment.readable_until

        def looked_at(segment: Segment, start: int, end: int) -> int:
            self.segment = segment.path
            return readable_until(segment, start, end)

        monkeypatch.setattr(Segment, "readable_until", looked_at)

    def _is_here(self, fd: int, start: int, end: int) -> bool:
        here = os.readlink(f"/proc/self/fd/{fd}") == str(self.path)
        return here and self.is_bad and start < self.end and end > self.start

    def pread(self, fd: int, size: int, at: int) -> bytes:
        if self._is_here(fd, at, at + size):
            self.asked += 1
            if at >= self.start:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            size = self.start - at  # what stands before the page comes
        return self._pread(fd, size, at)

    def pwrite(self, fd: int, data: bytes, at: int) -> int:
        written = self._pwrite(fd, data, at)
        if self._is_here(fd, at, at + written) and at <= self.start and at + written >= self.end:
            self.is_bad = not self.heals
        return written

    def can_read(self, address: int, start: int, end: int) -> bool:
        if self.is_bad and self.segment == self.path and start < self.end and end > self.start:
            self.asked += 1
            return False
        return can_read(address, start, end)


@pytest.mark.parametrize("how", ["died", "closed"])
@pytest.mark.parametrize("place", ["in the first file", "in the last file"])
def test_recovery_loses_what_stands_on_the_page_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, how: str
) -> None:
    store = make_store(tmp_path)
    store.open()
    placed = [store.append(message(b"%04d" % number + bytes(BODY_BYTES))) for number in range(COUNT)]
    store.close()
    if how == "died":
        (tmp_path / "abort").touch()
    base = 0 if place == "in the first file" else placed[-1].log_offset // SEGMENT_BYTES * SEGMENT_BYTES
    path = tmp_path / "commitlog" / f"{base:020d}"
    bad = BadDisk(path, 2, monkeypatch)
    hit = {
        number
        for number, each in enumerate(placed)
        if each.log_offset < base + bad.end and each.end > base + bad.start
    }
    assert 1 < len(hit) < 6

    again = make_store(tmp_path)
    again.open()
    assert bad.asked
    found = {int(each.body[:4]) for each in read_queue(again)}
    assert found >= set(range(COUNT)) - hit, "the others are there"
    assert again.append(message(b"more")).queue_offset == COUNT, "no offset is given twice"
    again.close()


@pytest.mark.parametrize("heals", [True, False])
def test_a_page_is_written_as_a_whole_and_one_that_stays_bad_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heals: bool
) -> None:
    store = make_store(tmp_path)
    store.open()
    store.append(message(b"a record that is smaller than a page"))
    store.close()
    bad = BadDisk(tmp_path / "commitlog" / f"{0:020d}", 0, monkeypatch)
    bad.heals = heals
    again = make_store(tmp_path)
    if heals:
        again.open()
        assert again.append(message(b"second")).queue_offset == 1
        again.close()
    else:
        with pytest.raises(
            StoreError, match="does not give back the log at 0, also after it was written anew"
        ):
            again.open()
    assert bad.asked
