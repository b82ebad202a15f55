"""Laws of the tables: whatever step a crash stops at, the old or the new text is readable."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.store import table_file
from rocketeer.store.table_file import load_table, looks_whole, save_table

OLD, NEW = '{"table":{"a":1}}', '{"table":{"a":2,"b":"x}"}}'


class Crash(BaseException):
    """Nothing catches it: the process is gone."""


def test_a_table_reads_back_and_the_one_before_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    assert load_table(path) is None
    save_table(path, OLD)
    assert load_table(path) == OLD
    save_table(path, NEW)
    assert load_table(path) == NEW
    assert (tmp_path / "config" / "topics.json.bak").read_text() == OLD
    assert sorted(os.listdir(tmp_path / "config")) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("stop_at", range(12))
def test_a_crash_at_any_step_leaves_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int, before: int
) -> None:
    path = tmp_path / "offsets.json"
    for _ in range(before):
        save_table(path, OLD)
    steps = 0

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **kwargs: object) -> object:
            nonlocal steps
            if steps == stop_at:
                raise Crash
            steps += 1
            return real(*args, **kwargs)

        return step

    with monkeypatch.context() as patched:
        for name in ("fsync", "link", "replace", "unlink", "open"):
            patched.setattr(os, name, counted(getattr(os, name)))
        try:
            save_table(path, NEW)
            finished = True
        except Crash:
            finished = False
    assert load_table(path) == NEW if finished else load_table(path) in (OLD, NEW)
    save_table(path, NEW)  # and the next save works on what was left
    assert load_table(path) == NEW


def test_every_cut_of_a_half_written_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    save_table(path, OLD)
    save_table(path, NEW)
    for size in range(len(NEW)):
        path.write_text(NEW[:size])
        assert load_table(path) == OLD


def test_a_broken_file_does_not_push_out_a_good_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    save_table(path, OLD)
    save_table(path, OLD)
    path.write_bytes(b"\xff\xfe garbage")

    def crash(source: object, target: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", crash)
        with pytest.raises(Crash):
            save_table(path, NEW)
    assert load_table(path) == OLD


def test_both_broken_gives_nothing_and_one_clear_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b"{\xff")
    (tmp_path / "t.json.bak").write_text("")
    assert load_table(path) is None
    assert "table lost" in caplog.text
    assert str(path) in caplog.text


def test_a_file_system_without_links_works_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: object, target: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(table_file.os, "link", no_links)
    path = tmp_path / "t.json"
    save_table(path, OLD)
    save_table(path, NEW)
    path.unlink()
    assert load_table(path) == OLD


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, ".", "no/such/folder/t.json"])
def test_names_no_system_can_have_load_as_nothing(tmp_path: Path, name: str) -> None:
    assert load_table(tmp_path / name) is None


def test_a_stricter_test_may_refuse_what_looks_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    save_table(path, OLD)
    save_table(path, NEW)
    assert load_table(path, accept=lambda text: text == OLD) == OLD


def test_rocketmqs_unquoted_keys_look_whole() -> None:
    assert looks_whole('{"offsetTable":{"T@G":{0:1,1:2}}}')
    assert looks_whole('{{"a":"b\\"}"}:[1]}')
    assert not looks_whole('{"a":"b}')
    assert not looks_whole('{"a":1}}')
    assert not looks_whole("")
