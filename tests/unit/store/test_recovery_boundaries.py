"""Derived files are no source of boundaries: whatever a flipped bit makes them say, the log is read from a record's start."""

from pathlib import Path

import pytest

from rocketeer.store.index_layout import HEADER
from support.clock import ManualClock
from support.recovered import COUNT, fill, numbers
from support.stores import checkpoint_now, kill, make_store

END_OFFSET_AT = 24  # in the header of an index file
assert HEADER.size == 40


@pytest.fixture
def died(tmp_path: Path) -> Path:
    """A store whose broker died some messages after a checkpoint."""
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    fill(store, 0, COUNT - 20)
    checkpoint_now(store, clock)
    fill(store, COUNT - 20, 20)
    copy = kill(store, tmp_path / "copy")
    store.close()
    return copy


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("bit", range(0, 24))
def test_a_flipped_bit_in_the_index_costs_the_log_nothing(died: Path, number: int, bit: int) -> None:
    path = sorted((died / "index").iterdir())[number]
    raw = bytearray(path.read_bytes())
    raw[END_OFFSET_AT + 7 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(raw)
    store = make_store(died)
    report = store.open()
    assert report.quarantined == ()
    assert numbers(store) == list(range(COUNT))
    store.close()


@pytest.mark.parametrize("bit", range(0, 20))
def test_a_flipped_bit_in_the_last_entry_of_the_index_costs_the_log_nothing(died: Path, bit: int) -> None:
    path = sorted((died / "index").iterdir())[-1]
    raw = bytearray(path.read_bytes())
    count = int.from_bytes(raw[36:40], "big")
    at = HEADER.size + 50 * 4 + (count - 1) * 20 + 4
    raw[at + 7 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(raw)
    store = make_store(died)
    report = store.open()
    assert report.quarantined == ()
    assert numbers(store) == list(range(COUNT))
    store.close()
