"""Messages that the index could not take yet, because the disk is full, are found all the same."""

import errno
from pathlib import Path

import pytest

from rocketeer.store.index import Index
from rocketeer.store.index_next import NextIndexFile
from support.clock import ManualClock
from support.index_reference import entry
from support.indexes import query


def test_a_query_finds_what_no_file_has_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(tmp_path, 50, 200, ManualClock())
    with monkeypatch.context() as full_disk:

        def no_space(self: NextIndexFile) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        full_disk.setattr(NextIndexFile, "step", no_space)
        for number in range(5):
            index.add(
                entry(1000 * number, keys=f"k{number} all", uniq=f"U{number}", store_ms=10_000 + number)
            )
        everything = (0, 1 << 62)
        assert query(index, "T", "k3", *everything, 10) == [3000]
        assert query(index, "T", "U4", *everything, 10) == [4000]
        assert query(index, "T", "all", *everything, 3) == [4000, 3000, 2000], "the newest first"
        assert query(index, "T", "all", 10_001, 10_002, 10) == [2000, 1000]
        assert query(index, "Other", "all", *everything, 10) == []
    assert query(index, "T", "all", *everything, 10) == [4000, 3000, 2000, 1000, 0], (
        "and when there is room again"
    )
    assert index.pending_count == 0
    index.close()
