"""A table that cannot be written now is written later, and keeps nothing else from being saved."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from rocketeer.broker.features.group.table_position import Position, read_position
from rocketeer.broker.locks import ChangeTrackingLocks
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.tables import TableKeeper
from rocketeer.model.offsets import LogOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.steps import Steps
from support.clock import ManualClock
from support.stores import message, open_store


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
    saved_with_others = True
    log_offset = 7

    def encode(self) -> str:
        return json.dumps({"logOffset": self.log_offset})

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


class Large:
    """Its text is made in steps; while it is, a record comes that changes another table."""

    file_name = "large.json"

    def __init__(self, between: Callable[[], None]) -> None:
        self._between = between

    def refresh(self) -> Steps[None]:
        yield
        self._between()
        yield

    def encode(self) -> str:
        return "{}"

    def decode(self, text: str) -> None: ...

    def take_dirty(self) -> bool:
        return True


@pytest.mark.parametrize("stops", [False, True])
async def test_a_table_that_speaks_of_the_others_says_no_more_than_they_did_when_saving_began(
    tmp_path: Path, stops: bool
) -> None:
    """The record that came meanwhile is read again at the next start: not every file that is saved has it."""
    offsets, speaking = ConsumerOffsets(), Speaking()

    def record_comes() -> None:
        offsets.commit("G", "T", 0, 5)
        speaking.log_offset = 8

    store, _ = open_store(tmp_path / "store")
    keeper = TableKeeper(tmp_path / "config", store)
    keeper.add([Large(record_comes), offsets, speaking])
    await (keeper.save_all() if stops else keeper.save_changed())
    assert (tmp_path / "config" / offsets.file_name).exists() is stops
    assert json.loads((tmp_path / "config" / speaking.file_name).read_text()) == {"logOffset": 7}
    store.close()


async def test_the_position_beside_locks_has_no_record_that_they_have_not(tmp_path: Path) -> None:
    """A member that was killed then had two owners of a queue, or one that had given it back."""
    clock = ManualClock()
    store, _ = open_store(tmp_path / "store", post=asyncio.get_running_loop().call_soon_threadsafe)
    locks = ChangeTrackingLocks(clock.now_ms)
    position = Position(lambda: store.max_log_offset, known_until=LogOffset(0))
    keeper = TableKeeper(tmp_path / "config", store)
    keeper.add([locks, position])
    locks.lock("First", "c", [MessageQueue("T", "b", number) for number in range(10_000)], 0)
    before = store.max_log_offset

    saving = asyncio.create_task(keeper.save_changed())
    await asyncio.sleep(0)
    assert not saving.done(), "ten thousand locks take some turns"
    locks.set_owner(
        "First", MessageQueue("T", "b", 0), "d"
    )  # a record says so: of the one that is told first
    store.append(message())
    await saving
    assert read_position(tmp_path / "config" / position.file_name) == before
    assert store.max_log_offset > before
    await keeper.save_changed()
    assert read_position(tmp_path / "config" / position.file_name) == store.max_log_offset
    saved = ChangeTrackingLocks(clock.now_ms)
    saved.decode((tmp_path / "config" / locks.file_name).read_text())
    assert saved.owner("First", MessageQueue("T", "b", 0), 0) == "d"
    store.close()


class Failing:
    """A table whose text cannot be made, until somebody has mended it."""

    file_name = "failing.json"
    steps_left = 0
    fails = True

    def encode(self) -> str:
        return "{}"

    def decode(self, text: str) -> None: ...

    def take_dirty(self) -> bool:
        return True

    def refresh(self) -> Steps[None]:
        if self.fails:
            raise ValueError("a bug")
        while self.steps_left:
            yield


async def test_what_was_to_be_saved_with_a_table_that_fails_is_saved_by_the_next_round(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "config"
    offsets, failing = ConsumerOffsets(), Failing()
    store, _ = open_store(tmp_path / "store")
    keeper = TableKeeper(folder, store)
    keeper.add([failing, offsets])
    offsets.commit("G", "T", 0, 4)
    for number in range(2):
        with pytest.raises(ValueError, match="a bug"):
            await keeper.save_changed()
        assert (folder / offsets.file_name).exists() == (number == 0), "one that fails keeps no other from it"
        (folder / offsets.file_name).unlink(missing_ok=True)
    offsets.commit("G", "T", 0, 5)
    failing.fails, failing.steps_left = False, 1
    saving = asyncio.ensure_future(keeper.save_changed())
    await asyncio.sleep(0)
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert not (folder / offsets.file_name).exists()
    failing.steps_left = 0
    await keeper.save_changed()
    again = ConsumerOffsets()
    again.decode((folder / offsets.file_name).read_text())
    assert again.query("G", "T", 0) == 5
    (folder / offsets.file_name).unlink()
    await keeper.save_changed()
    assert not (folder / offsets.file_name).exists(), "written once"
    store.close()


async def test_a_clean_stop_writes_every_table_that_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "config"
    offsets, failing, speaking = ConsumerOffsets(), Failing(), Speaking()
    other = Failing()
    other.file_name = "other.json"
    store, _ = open_store(tmp_path / "store")
    keeper = TableKeeper(folder, store)
    keeper.add([failing, other, offsets, speaking])
    offsets.commit("G", "T", 0, 5)
    with pytest.raises(ValueError, match="a bug"):
        await keeper.save_all()
    again = ConsumerOffsets()
    again.decode((folder / offsets.file_name).read_text())
    assert again.query("G", "T", 0) == 5
    assert not (folder / speaking.file_name).exists(), "what it says of the others does not hold"
    assert [record for record in caplog.records if "other.json" in record.getMessage()]
    store.close()


class Slow(str):
    """A text that a thread is busy with until it may go on."""

    begun: Event
    may_go_on: Event

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        self.begun.set()
        assert self.may_go_on.wait(60)
        return super().encode(encoding, errors)


class Numbered:
    """Says which of its savings this is; the first one takes its time."""

    file_name = "numbered.json"

    def __init__(self) -> None:
        self.first = Slow(json.dumps({"saving": 1}))
        self.first.begun, self.first.may_go_on = Event(), Event()
        self._savings = 0

    def encode(self) -> str:
        self._savings += 1
        return self.first if self._savings == 1 else json.dumps({"saving": self._savings})

    def decode(self, text: str) -> None: ...

    def take_dirty(self) -> bool:
        return True


async def test_a_save_that_is_cancelled_ends_before_the_next_one_begins(tmp_path: Path) -> None:
    """A clean stop cancels the periodic save, then saves everything: two threads then wrote one file, and what the
    older one knew, or a half of it, was what was left."""
    store, _ = open_store(tmp_path / "store")
    table = Numbered()
    keeper = TableKeeper(tmp_path / "config", store)
    keeper.add([table])
    periodic = asyncio.create_task(keeper.save_changed())
    await asyncio.to_thread(table.first.begun.wait, 60)
    periodic.cancel()
    last = asyncio.create_task(keeper.save_all())
    await asyncio.wait((last,), timeout=0.2)
    assert not last.done()
    table.first.may_go_on.set()
    await last
    assert periodic.cancelled()
    assert json.loads((tmp_path / "config" / table.file_name).read_text()) == {"saving": 2}
    assert json.loads((tmp_path / "config" / f"{table.file_name}.bak").read_text()) == {"saving": 1}
    store.close()
