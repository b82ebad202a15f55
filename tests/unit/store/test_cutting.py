"""A cut store is one that never had what was cut: recovery takes nothing of it for damage."""

import logging
from pathlib import Path

import pytest

from rocketeer.model.offsets import QueueOffset
from rocketeer.store.cutting import cut_store
from support.clock import ManualClock
from support.stores import checkpoint_now, kill, make_store, message, small_config


@pytest.mark.parametrize("kept", [0, 1, 30, 59, 60])
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_what_was_cut_is_gone_for_good(
    tmp_path: Path, kept: int, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock, folder = ManualClock(), tmp_path / "store"
    store = make_store(folder, clock)
    store.open()
    entries = [store.append(message(b"%d" % number)) for number in range(60)]
    ends = [0, *(entry.end for entry in entries)]
    checkpoint_now(store, clock)
    if not clean:
        folder = kill(store, tmp_path / "killed")
    store.close()
    for _ in range(2):  # whoever asked for the cut may ask again
        cut_store(small_config(folder), ends[kept], tables=())
    again = make_store(folder)
    again.open()
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert again.max_log_offset == ends[kept]
    assert again.max_queue_offset("TopicTest", 0) == kept
    put = again.append(message(b"new"))
    assert (put.log_offset, put.queue_offset) == (ends[kept], kept)
    again.close()


def test_places_of_lost_messages_are_free_again_when_the_log_is_copied_anew(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store = make_store(folder)
    store.open()
    entries = [store.append(message(b"body %d" % number)) for number in range(60)]
    store.close()
    path = min((folder / "commitlog").iterdir())
    log = path.read_bytes()[: entries[-1].end]
    damaged = entries[57]
    flipped = bytearray(log[damaged.log_offset : damaged.end])
    flipped[flipped.index(b"body 57")] ^= 1
    with path.open("r+b") as file:
        file.seek(damaged.log_offset)
        file.write(flipped)

    found: list[int] = []
    store = make_store(folder)
    store.on_damage.append(found.append)
    store.open()
    assert found == [damaged.log_offset]
    assert store.get("TopicTest", 0, QueueOffset(57), 32).count == 2, "it is lost here"
    store.close()

    cut_store(small_config(folder), damaged.log_offset, tables=())
    again = make_store(folder)
    again.open()
    assert again.max_queue_offset("TopicTest", 0) == 57
    again.append_raw(damaged.log_offset, log[damaged.log_offset :])
    assert again.max_queue_offset("TopicTest", 0) == 60
    found_again = again.get("TopicTest", 0, QueueOffset(57), 32)
    assert b"".join(map(bytes, found_again.parts)) == log[damaged.log_offset :]
    again.close()
