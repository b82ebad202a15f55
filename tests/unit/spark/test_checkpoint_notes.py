"""Whose checkpoint a folder is: noted by whoever comes first, whatever died or comes at the same time."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rocketeer import whole_file
from rocketeer.spark.jobs.checkpoints import NOTE, OtherCheckpoint, claim
from rocketeer.whole_file import write_synced

WHO = {"topic": "T", "target": "lake"}


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_of_drivers_that_claim_a_checkpoint_at_the_same_time_the_first_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    other: list[dict[str, Any]] = []

    def write_while_the_other_claims_it(path: Path, parts: Iterable[bytes], *, mode: int | None) -> None:
        write_synced(path, parts, mode=mode)
        monkeypatch.setattr(whole_file, "write_synced", write_synced)
        other.append(claim(tmp_path, WHO, {"from": 1}))

    def link(source: Path, target: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(whole_file, "write_synced", write_while_the_other_claims_it)
    assert claim(tmp_path, WHO, {"from": 2}) == {"from": 1}
    assert other == [{"from": 1}]
    assert claim(tmp_path, WHO, {"from": 3}) == {"from": 1}
    assert os.listdir(tmp_path) == [NOTE]


def test_a_driver_that_died_while_it_claimed_a_checkpoint_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / f"{NOTE}.{1:016x}.tmp").write_bytes(b"{")
    assert claim(tmp_path, WHO) == {}
    with pytest.raises(OtherCheckpoint, match="another query"):
        claim(tmp_path, {**WHO, "topic": "U"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(OtherCheckpoint, match="not empty"):
        claim(tmp_path / "other", WHO)
