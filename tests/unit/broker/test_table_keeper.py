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


class Speaking:
    """Says up to where in the log the other tables know."""

    file_name = "speaking.json"
    speaks_of_others = True

    def encode(self) -> str:
        return '{"logOffset":7}'

    def decode(self, text: str) -> None: ...

    def take_dirty(self) -> bool:
        return True


async def test_a_table_that_speaks_of_the_others_is_not_saved_before_they_are(tmp_path: Path) -> None:
    """A member that died between would look for nothing in the log, and have lost what was committed."""
    folder = tmp_path / "config"
    offsets, speaking = ConsumerOffsets(), Speaking()
    (folder / f"{offsets.file_name}.tmp").mkdir(parents=True)  # no room for the offsets
    store, _ = open_store(tmp_path / "store")
    keeper = TableKeeper(folder, store)
    keeper.add([offsets, speaking])
    offsets.commit("G", "T", 0, 5)
    for _ in range(2):
        await keeper.save_changed()
        assert not (folder / speaking.file_name).exists()
    (folder / f"{offsets.file_name}.tmp").rmdir()
    await keeper.save_changed()
    assert (folder / offsets.file_name).exists()
    assert (folder / speaking.file_name).exists()
    store.close()
