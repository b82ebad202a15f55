"""Laws of the key-value table: what was answered is on disk, in RocketMQ's own form."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.errors import ConfigError, StoreError
from rocketeer.nameserver.kv_table import KvTable, decode_spaces, encode_spaces, with_value, without_key

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SPACES = st.dictionaries(TEXT, st.dictionaries(TEXT, TEXT))


def loaded(path: Path) -> KvTable:
    table = KvTable(path)
    table.load()
    return table


@given(SPACES)
def test_the_file_reads_back_as_it_was_written(spaces: dict[str, dict[str, str]]) -> None:
    assert decode_spaces(encode_spaces(spaces)) == spaces


@given(SPACES, TEXT, TEXT, TEXT)
def test_a_put_value_is_there_a_deleted_one_is_not_and_the_others_stay(
    spaces: dict[str, dict[str, str]], namespace: str, key: str, value: str
) -> None:
    put = with_value(spaces, namespace, key, value)
    assert put[namespace][key] == value
    gone = without_key(put, namespace, key)
    assert key not in gone[namespace]
    assert without_key({**spaces, namespace: spaces.get(namespace, {})}, namespace, key) == gone


async def test_changes_survive_a_restart_in_rocketmqs_form(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    table = loaded(path)
    await table.put("NS", "k1", "v1")
    await table.put("NS", "k2", "中文")
    await table.put("Other", "k", "v")
    await table.delete("Other", "k")
    await table.delete("Other", "never there")
    assert json.loads(path.read_text()) == {"configTable": {"NS": {"k1": "v1", "k2": "中文"}, "Other": {}}}
    again = loaded(path)
    assert again.get("NS", "k2") == "中文"
    assert again.namespace("Other") == {}
    assert again.namespace("Unknown") is None
    assert again.get("Unknown", "k") is None


async def test_changes_made_at_once_are_all_kept(tmp_path: Path) -> None:
    table = loaded(tmp_path / "kv.json")
    await asyncio.gather(*(table.put("NS", str(i), "v") for i in range(20)))
    assert len(loaded(tmp_path / "kv.json").namespace("NS") or {}) == 20


def test_without_a_file_the_table_is_empty(tmp_path: Path) -> None:
    assert loaded(tmp_path / "kv.json").namespace("NS") is None


async def test_a_broken_file_falls_back_to_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    table = loaded(path)
    await table.put("NS", "a", "1")
    await table.put("NS", "b", "2")
    path.write_text('{"configTable": {"NS":')
    assert loaded(path).namespace("NS") == {"a": "1"}


@pytest.mark.parametrize("text", ["", "nonsense", '{"configTable":[]}', '{"configTable":{"NS":{"k":{}}}}'])
def test_a_table_that_cannot_be_read_is_an_error_and_stays_untouched(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kv.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"kv\.json"):
        loaded(path)
    assert path.read_text() == text


async def test_what_cannot_be_written_is_refused_and_not_seen(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    table = loaded(tmp_path / "file" / "kv.json")
    with pytest.raises(StoreError, match=r"cannot write .*kv\.json"):
        await table.put("NS", "k", "v")
    assert table.get("NS", "k") is None
