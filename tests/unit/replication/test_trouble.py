"""What goes wrong between master and slave: each time it is named, and nothing is lost or made up."""

import asyncio
import contextlib
import logging
import random
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.config import BrokerRole, FlushMode
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.replication import log_sender, receiver, sender
from rocketeer.replication.master import SLAVES_MAX
from rocketeer.replication.stream import HEADER, HELLO, REPORT
from support.broker import BrokerUnderTest, broker_at
from support.pairs import CutLink, ha_address, log_bytes, same_logs, slave_at, until


async def fill(master: BrokerUnderTest, count: int, size: int = 100) -> None:
    for number in range(count):
        assert (await master.send("T", b"%06d" % number + bytes(size))).code == ResponseCode.SUCCESS


async def max_offset(broker: BrokerUnderTest) -> int:
    answer = await broker.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
    return int(answer.ext["offset"])


@contextlib.contextmanager
def at_ha_port(master: BrokerUnderTest) -> Iterator[socket.socket]:
    host, _, port = ha_address(master).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        yield sock


async def read(sock: socket.socket, count: int) -> bytes:
    """So many bytes, or fewer when the connection ends."""

    def run() -> bytes:
        data = b""
        while len(data) < count and (more := sock.recv(count - len(data))):
            data += more
        return data

    return await asyncio.to_thread(run)


async def test_a_link_cut_anywhere_is_taken_up_again_and_every_message_comes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "AGAIN_S", 0.01)
    monkeypatch.setattr(receiver, "AGAIN_S_MAX", 0.01)
    dice = random.Random(15)
    async with broker_at(tmp_path / "m") as master:
        await fill(master, 60, size=5_000)
        # In the middle of a header, of a record's head, of its body; and without any byte of the log.
        cuts = [3, 24, 30, 36, 36 + 50] + [dice.randrange(1, 30_000) for _ in range(15)]
        async with (
            CutLink(cuts).before(ha_address(master)) as link,
            slave_at(tmp_path / "s", link.address) as slave,
        ):
            await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"), what="equal logs")
            assert link.connections > len(cuts) // 2
            assert await max_offset(slave) == 60


async def test_rocketmq_issue_3388_an_offset_the_master_no_longer_has_is_named_by_both(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with broker_at(tmp_path / "m") as master:
        await fill(master, 30)
        async with slave_at(tmp_path / "s", ha_address(master)):
            await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"))
        await fill(master, 220, size=10_000)
    (tmp_path / "m" / "commitlog" / f"{0:020d}").unlink()
    (tmp_path / "m" / "checkpoint").unlink()
    async with broker_at(tmp_path / "m") as master:
        async with slave_at(tmp_path / "s", ha_address(master)):
            await until(lambda: "too old to follow" in caplog.text and "slave refused" in caplog.text)
        assert "our log ends at" in caplog.text
        # A slave of 4.9.8 that asks for it is not left waiting for ever either.
        with at_ha_port(master) as java:
            java.sendall(REPORT.pack(100))
            assert await read(java, 100) == b""


async def test_a_store_that_is_ahead_of_its_master_is_refused_and_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_at(tmp_path / "other") as other:
        await fill(other, 20)
    shutil.copytree(tmp_path / "other", tmp_path / "s")
    before = log_bytes(tmp_path / "s")
    async with broker_at(tmp_path / "m") as master:
        await fill(master, 5)
        async with slave_at(tmp_path / "s", ha_address(master)):
            await until(lambda: "belongs to another log" in caplog.text)
    assert log_bytes(tmp_path / "s") == before


async def test_a_slave_of_4_9_8_gets_the_last_file_and_one_of_ours_the_whole_log(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as master:
        await fill(master, 220, size=10_000)
        with at_ha_port(master) as java:
            java.sendall(REPORT.pack(0))
            assert HEADER.unpack(await read(java, 12)) == (2 << 20, 0)
            offset, size = HEADER.unpack(await read(java, 12))
            assert (offset, size) == (2 << 20, 32_768)
        with at_ha_port(master) as ours:
            ours.sendall(REPORT.pack(HELLO))
            assert HEADER.unpack(await read(ours, 12)) == (0, -1)
            end, note = HEADER.unpack(await read(ours, 12))
            assert note == -2
            assert end > 2 << 20
            ours.sendall(REPORT.pack(0))
            assert HEADER.unpack(await read(ours, 12)) == (0, 0)
            assert HEADER.unpack(await read(ours, 12)) == (0, log_sender.TURN_BYTES)


async def test_no_piece_crosses_a_file_and_pieces_have_the_size_that_is_configured(tmp_path: Path) -> None:
    async with broker_at(tmp_path, store={"ha_transfer_bytes": 100_000}) as master:
        await fill(master, 220, size=10_000)
        with at_ha_port(master) as java:
            java.sendall(REPORT.pack(1))  # any offset is one to begin at, as there
            at, sizes = 1, []
            await read(java, 12)
            while at < 2 << 20:
                offset, size = HEADER.unpack(await read(java, 12))
                assert offset == at
                assert offset // (1 << 20) == (offset + size - 1) // (1 << 20)
                sizes.append(size)
                at += len(await read(java, size))
            assert max(sizes) == 100_000


async def take_and_report(slave: socket.socket) -> None:
    """Read one piece of the log, and say that it is there."""
    offset, size = HEADER.unpack(await read(slave, 12))
    assert len(await read(slave, size)) == size > 0
    slave.sendall(REPORT.pack(offset + size))


async def test_a_report_that_overtakes_the_sending_threads_result_is_no_report_beyond_what_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sender, "HOT_BYTES", 0)
    may_return = threading.Event()
    send_now = log_sender.send_now

    def sent_and_held_up(*args: Any) -> int:
        count = send_now(*args)
        assert may_return.wait(30)
        return count

    async with broker_at(tmp_path, store={"broker_role": BrokerRole.SYNC_MASTER}) as master:
        await master.send("T", b"stored, with no slave to confirm it")
        with at_ha_port(master) as slave:
            slave.sendall(REPORT.pack(HELLO))
            await read(slave, 24)  # where the log begins and ends
            slave.sendall(REPORT.pack(0))
            await read(slave, 12)  # a heartbeat
            await take_and_report(slave)
            monkeypatch.setattr(log_sender, "send_now", sent_and_held_up)
            sending = asyncio.create_task(master.send("T", b"confirmed"))
            await take_and_report(slave)  # the thread has not come back yet
            try:
                assert (await sending).code == ResponseCode.SUCCESS
            finally:
                may_return.set()
            sending = asyncio.create_task(master.send("T", b"and it goes on"))
            await take_and_report(slave)
            assert (await sending).code == ResponseCode.SUCCESS


async def test_strangers_cost_little(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with broker_at(tmp_path, store={"ha_housekeeping_ms": 2_500}) as master:
        await fill(master, 200, size=10_000)
        with contextlib.ExitStack() as crowd:
            silent = [
                await asyncio.to_thread(crowd.enter_context, at_ha_port(master))
                for _ in range(SLAVES_MAX + 8)
            ]
            refused = [await read(sock, 1) for sock in silent[-8:]]
            assert refused == [b""] * 8, "there is a limit"
            assert [await read(sock, 1) for sock in silent[:8]] == [b""] * 8, "who says nothing has to go"
        with at_ha_port(master) as loud:
            loud.sendall(b"\xff" * 3 + bytes(1000))
            assert len(await read(loud, 100)) < 100, "no report at all: refused"
        assert (await master.send("T", b"still here")).code == ResponseCode.SUCCESS


async def test_a_slave_that_does_not_read_holds_up_nobody_and_goes_after_the_housekeeping_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_at(tmp_path, store={"ha_housekeeping_ms": 1_500}) as master:
        with at_ha_port(master) as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.sendall(REPORT.pack(0))
            await fill(master, 600, size=15_000)
            await until(lambda: "no report for" in caplog.text)


async def test_a_slave_under_sync_flush_reports_what_its_disk_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker_at(tmp_path / "m") as master:
        reports: list[int] = []
        reported = sender.SlaveLink._reported

        def note(link: sender.SlaveLink, report: int) -> None:
            reports.append(report)
            reported(link, report)

        monkeypatch.setattr(sender.SlaveLink, "_reported", note)
        await fill(master, 10)
        sync = {"flush_mode": FlushMode.SYNC_FLUSH}
        async with slave_at(tmp_path / "s", ha_address(master), store=sync):
            end = sum(map(len, log_bytes(tmp_path / "m").values()))
            await until(lambda: bool(reports) and reports[-1] == end)
