"""The slave's log on its own disk: what was cut stays cut, what failed is not reported."""

import errno
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from rocketeer.config import BrokerRole
from rocketeer.store.message_store import MessageStore
from rocketeer.store.segment import Segment
from support.broker import broker_at
from support.clock import ManualClock
from support.pairs import ha_address, log_bytes, same_logs, slave_at, until
from support.stores import checkpoint_now, kill, make_store, message, open_store


def whole_log(store: MessageStore) -> bytes:
    data = store.log.read(0, store.max_log_offset)
    assert data is not None
    return bytes(data)


def test_rocketmq_issue_10666_a_tail_that_was_cut_is_not_back_after_a_crash(tmp_path: Path) -> None:
    master, _ = open_store(tmp_path / "m")
    for number in range(10):
        master.append(message(b"%d" % number * 300))
    copied = whole_log(master)
    slave = make_store(tmp_path / "s", broker_role=BrokerRole.SLAVE)
    slave.open()
    slave.append_raw(0, copied[:-100])  # the last record is not whole
    assert slave.max_log_offset == len(copied) - 100
    # The process dies; recovery cuts the part of a record, and dies too, before anything else is written.
    shutil.copytree(tmp_path / "s", tmp_path / "crashed")
    slave.close()
    again = make_store(tmp_path / "crashed", broker_role=BrokerRole.SLAVE)
    report = again.open()
    end = report.log_max
    assert end < len(copied) - 100
    shutil.copytree(tmp_path / "crashed", tmp_path / "crashed twice")
    again.close()
    on_disk = (tmp_path / "crashed twice" / "commitlog" / f"{0:020d}").read_bytes()
    assert not any(on_disk[end:]), "zeros on the disk before the shorter end is reported"
    third = make_store(tmp_path / "crashed twice", broker_role=BrokerRole.SLAVE)
    assert third.open().log_max == end
    third.append_raw(end, copied[end:])
    assert third.max_log_offset == len(copied)
    assert third.max_queue_offset("TopicTest", 0) == 10
    third.close()
    master.close()


async def test_a_slave_whose_sync_failed_copies_and_reports_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_at(tmp_path / "m") as master, slave_at(tmp_path / "s", ha_address(master)):
        await master.send("T", b"first")
        await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"))
        sync = Segment.sync

        def failing(segment: Segment, start: int, end: int) -> None:
            if segment.path.is_relative_to(tmp_path / "s"):
                raise OSError(errno.EIO, "the disk is broken")
            sync(segment, start, end)

        monkeypatch.setattr(Segment, "sync", failing)
        await master.send("T", b"second")
        await until(lambda: "sync failed" in caplog.text)
        copied = log_bytes(tmp_path / "s")
        await master.send("T", b"third")
        await until(lambda: "nothing is copied any more" in caplog.text)
        assert log_bytes(tmp_path / "s") == copied
        monkeypatch.undo()


async def test_rocketmq_issue_9705_a_table_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    """Copied tables go the way all tables go: written beside, synced, renamed, the folder synced."""
    from rocketeer.broker.tables import TableKeeper
    from rocketeer.store import table_file

    store, _ = open_store(tmp_path / "store")
    keeper = TableKeeper(tmp_path, store)
    await keeper.save_text("delayOffset.json", '{"offsetTable":{1:1}}')
    with pytest.MonkeyPatch.context() as patch:

        def torn(path: Path, parts: Iterable[bytes]) -> None:
            data = b"".join(parts)
            path.write_bytes(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "no room")

        patch.setattr(table_file, "write_synced", torn)
        await keeper.save_text("delayOffset.json", '{"offsetTable":{1:2}}')
    assert await keeper.saved_text("delayOffset.json") == '{"offsetTable":{1:1}}'


def test_a_slave_that_dies_after_a_topic_has_ended_does_not_look_for_its_queues(tmp_path: Path) -> None:
    master, _ = open_store(tmp_path / "master")
    for number in range(10):
        master.append(message(topic=f"T{number}", keys="k"))
    before = master.max_log_offset
    master.delete_topic("T9")
    end = master.append(message()).end
    copied = memoryview(bytes(master.log.read(0, end) or b""))
    master.close()
    clock = ManualClock()
    slave = make_store(tmp_path / "slave", clock, broker_role=BrokerRole.SLAVE)
    slave.open()
    slave.append_raw(0, copied[:before])
    checkpoint_now(slave, clock)
    slave.append_raw(before, copied[before:])
    again, report = open_store(kill(slave, tmp_path / "copy"), broker_role=BrokerRole.SLAVE)
    slave.close()
    assert report.actions == ()
    assert report.redone_messages == 2, "the end of the topic, and what follows"
    assert len(again.queues()) == 10
    again.close()
