"""A file that is replaced whole is the old one or a new one, whoever else replaces it at the same time."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocketeer.whole_file import LEFT_BEHIND_S, is_temporary, replace_file


def test_those_who_replace_a_file_at_the_same_time_do_not_write_into_each_others(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    contents = [bytes([65 + number]) * (100_000 + 50_000 * number) for number in range(4)]
    replace_file(path, contents[0])

    def replace_often(content: bytes) -> None:
        for _ in range(50):
            replace_file(path, content)
            assert path.read_bytes() in contents

    with ThreadPoolExecutor(len(contents)) as pool:
        list(pool.map(replace_often, contents))
    assert os.listdir(tmp_path) == [path.name]


def test_what_a_process_left_behind_that_died_goes_when_nobody_can_be_at_it_any_more(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    old, new = (tmp_path / f"note.json.{number:016x}.tmp" for number in range(2))
    others = [tmp_path / name for name in ("note.json.tmp", "note.json.bak", f"other.json.{7:016x}.tmp")]
    for left in (old, new, *others):
        left.write_bytes(b"left")
    for left in (old, *others):
        os.utime(left, (0, new.stat().st_mtime - LEFT_BEHIND_S - 60))
    replace_file(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert set(tmp_path.iterdir()) == {path, new, *others}
    assert [is_temporary(each.name) for each in (old, new, path, *others)] == [
        True, True, False, False, False, True,
    ]  # fmt: skip


def test_what_could_not_be_put_in_its_place_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(path, b"whole")
    assert os.listdir(tmp_path) == [path.name]


def test_only_those_may_read_it_who_are_named(tmp_path: Path) -> None:
    path = tmp_path / "users.yml"
    for mode in (0o600, 0o640):
        replace_file(path, b"secret", mode=mode)
        assert path.stat().st_mode & 0o777 == mode
