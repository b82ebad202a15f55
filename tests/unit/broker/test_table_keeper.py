"""A table that cannot be written now is written later, and keeps nothing else from being saved."""

import logging
from pathlib import Path

import pytest

from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.tables import TableKeeper
from support.stores import open_store


async def test_what_a_full_disk_refused_is_saved_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "config"
    folder.write_text("where the folder should be")  # every write fails, as on a full disk
    offsets = ConsumerOffsets()
    store, _ = open_store(tmp_path / "store")
    keeper = TableKeeper(folder, store)
    keeper.add([offsets])
    offsets.commit("G", "T", 0, 5)
    for _ in range(3):
        await keeper.save_changed()
    await keeper.save_all()
    said = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(said) == 1, "said once, not every five seconds"

    folder.unlink()
    await keeper.save_changed()
    again = ConsumerOffsets()
    again.decode((folder / offsets.file_name).read_text())
    assert again.query("G", "T", 0) == 5
    store.close()
