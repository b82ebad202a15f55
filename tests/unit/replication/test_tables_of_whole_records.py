"""A copied log may end within a record: what is noted beside it speaks of whole ones, or the record would be passed over."""

import asyncio
from pathlib import Path

import pytest

from rocketeer.broker.features.idempotence.resends import IdempotenceLimits
from rocketeer.broker.features.idempotence.snapshot import Snapshots
from rocketeer.broker.features.timer.feature import Timers
from rocketeer.broker.features.timer.snapshot import read_snapshot
from rocketeer.broker.writer import Writer
from rocketeer.config import BrokerRole
from rocketeer.observe.counters import Counters
from support.clock import ManualClock
from support.stores import SEGMENT_BYTES, make_store, message, open_store


@pytest.mark.parametrize("bytes_of_the_last", [1, 50, 0])
async def test_snapshots_of_a_slave_end_with_a_whole_record(tmp_path: Path, bytes_of_the_last: int) -> None:
    master, _ = open_store(tmp_path / "master")
    entries = [master.append(message(b"%d" % number * 100)) for number in range(5)]
    copied = bytes(master.log.read(0, master.max_log_offset) or b"")
    master.close()
    clock = ManualClock()
    slave = make_store(tmp_path / "slave", clock)
    slave.open()
    whole = entries[4].log_offset
    slave.append_raw(0, memoryview(copied[: whole + bytes_of_the_last]))
    assert (slave.max_log_offset, slave.whole_log_offset) == (whole + bytes_of_the_last, whole)

    writer = Writer(slave, message_bytes_max=slave.config.message_bytes_max, counters=Counters())
    timers = Timers(tmp_path / "pending", slave, writer, clock)
    timers.since()
    timers.finish()
    noting = asyncio.create_task(timers.snapshot())
    async with asyncio.timeout(60):
        while not noting.done():  # it waits for the disk
            clock.advance(ms=100)
            slave.tick()
            await asyncio.sleep(0.001)
    assert read_snapshot(tmp_path / "pending").log_offset == whole

    path = tmp_path / "producers.bin"
    producers = Snapshots(
        IdempotenceLimits(ids=100, numbers=10, idle_ms=1_000),
        slave,
        clock,
        path=path,
        segment_bytes=SEGMENT_BYTES,
    )
    producers.save()
    again = Snapshots(
        IdempotenceLimits(ids=100, numbers=10, idle_ms=1_000),
        slave,
        clock,
        path=path,
        segment_bytes=SEGMENT_BYTES,
    )
    assert again.load() == whole
    slave.close()


def test_a_scan_of_a_copied_log_ends_with_a_whole_record_and_finds_no_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    master, _ = open_store(tmp_path / "master")
    entries = [master.append(message(b"%d" % number * 100)) for number in range(5)]
    copied = bytes(master.log.read(0, master.max_log_offset) or b"")
    master.close()
    slave, _ = open_store(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    slave.append_raw(0, memoryview(copied[:-50]))
    assert [each.log_offset for each in slave.scan(0)] == [each.log_offset for each in entries[:4]]
    slave.append_raw(len(copied) - 50, memoryview(copied[-50:]))
    assert [each.log_offset for each in slave.scan(0)] == [each.log_offset for each in entries]
    slave.close()
    assert "log damaged" not in caplog.text
