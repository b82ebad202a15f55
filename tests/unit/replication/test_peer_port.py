"""What strangers do at the ports for peers keeps neither peers out nor the loop busy."""

import asyncio
import contextlib
import socket
import time
from functools import partial
from pathlib import Path

import pytest

from rocketeer.errors import ReplicationError
from rocketeer.group.epochs import EPOCHS_MAX, begun
from rocketeer.group.frames import HELLO_BYTES_MAX, FrameKind, Hello, MemberFrameReader, check_sizes, frame
from rocketeer.replication.master import SLAVES_MAX
from rocketeer.replication.peer_reader import FEW_BYTES, PIECE_BYTES, PeerReader
from rocketeer.replication.stream import HELLO, REPORT
from support.broker import broker_at
from support.pairs import ha_address, same_logs, slave_at, until


def at_port(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 10)


def _are_equal(one: bytearray, other: bytearray) -> bool:
    return one == other


@pytest.mark.parametrize("said", [b"", b"\0", REPORT.pack(HELLO)])
async def test_strangers_who_do_not_say_what_they_want_keep_no_slave_out(tmp_path: Path, said: bytes) -> None:
    async with broker_at(tmp_path / "m") as master:
        with contextlib.ExitStack() as crowd:
            for _ in range(SLAVES_MAX + 8):
                sock = await asyncio.to_thread(at_port, ha_address(master))
                crowd.enter_context(sock).sendall(said)
            await master.send("T", b"x" * 1000)
            async with slave_at(tmp_path / "s", ha_address(master)):
                await until(lambda: same_logs(tmp_path / "m", tmp_path / "s"), seconds=15, what="equal logs")


async def test_however_much_peers_bring_the_loop_is_kept_for_one_turn() -> None:
    """Twenty peers, each piece of whose bytes takes a millisecond."""
    pieces: list[int] = []
    readers = []
    with contextlib.ExitStack() as stack:

        def take(data: memoryview) -> None:
            pieces.append(len(data))
            time.sleep(0.001)

        for _ in range(20):
            ours, theirs = map(stack.enter_context, socket.socketpair())
            ours.setblocking(False)
            theirs.sendall(bytes(8 * PIECE_BYTES))
            readers.append(
                PeerReader(ours, 1 << 16, peer="peer", take=take, ended=lambda error: None, paced=True)
            )
        most = 0
        async with asyncio.timeout(60):
            while len(pieces) < 20 * 8:
                before = len(pieces)
                await asyncio.sleep(0)
                most = max(most, len(pieces) - before)
        for reader in readers:
            reader.close()
    assert max(pieces) == PIECE_BYTES
    assert most <= 4, "two of them fill a turn"


async def test_a_few_bytes_are_served_at_once_and_much_in_order() -> None:
    came = bytearray()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reader = PeerReader(
            ours, 1 << 16, peer="peer", take=came.extend, ended=lambda error: None, paced=True
        )
        sent = bytearray()
        for size in (FEW_BYTES, 10 * PIECE_BYTES + 7, 1, FEW_BYTES + 1):
            sent += bytes(len(sent) % 251 for _ in range(size))
            theirs.sendall(sent[-size:])
            await until(partial(_are_equal, came, sent), seconds=5)
        assert came == sent
        reader.close()


async def test_who_is_closed_in_its_turn_is_given_nothing_more() -> None:
    pieces: list[int] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)

        def refuse(data: memoryview) -> None:
            pieces.append(len(data))
            raise ReplicationError("no")

        reader = PeerReader(
            ours, 1 << 16, peer="peer", take=refuse, ended=lambda error: reader.close(), paced=True
        )
        theirs.sendall(bytes(10 * PIECE_BYTES))
        for _ in range(20):
            await asyncio.sleep(0.001)
    assert pieces == [PIECE_BYTES]


def test_a_hello_says_no_more_than_a_member_says() -> None:
    honest = Hello("group", 1, "incarnation", 3, [(number, number) for number in range(EPOCHS_MAX)], 10)
    check_sizes(honest)
    for wrong in (
        Hello("group", 0, "x", 3, [], 0),
        Hello("group", 1_001, "x", 3, [], 0),
        Hello("group", 1, "x", 3, [(0, 0)] * (EPOCHS_MAX + 1), 0),
        Hello("g" * 1_000, 1, "x", 3, [], 0),
        Hello("group", 1, "x" * 1_000, 3, [], 0),
    ):
        with pytest.raises(ReplicationError):
            check_sizes(wrong)


def test_a_frame_larger_than_a_hello_is_refused_by_its_header() -> None:
    reader = MemberFrameReader(payload_bytes_max=HELLO_BYTES_MAX)
    with pytest.raises(ReplicationError, match=f"at most {HELLO_BYTES_MAX}"):
        list(reader.feed(memoryview(frame(FrameKind.HELLO, 0, 0, bytes(HELLO_BYTES_MAX + 1))[:17])))


def test_a_leader_keeps_the_last_epochs() -> None:
    epochs: list[tuple[int, int]] = []
    for epoch in range(1, EPOCHS_MAX + 50):
        epochs = begun(epochs, epoch, epoch * 10)
    assert len(epochs) == EPOCHS_MAX
    assert epochs[-1] == (EPOCHS_MAX + 49, (EPOCHS_MAX + 49) * 10)
