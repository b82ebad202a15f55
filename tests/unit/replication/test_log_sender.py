"""The stream to a peer that is far behind: whatever is said meanwhile, each byte of the log goes out once, in order."""

import asyncio
import random
import socket
import threading
import time

import pytest

from rocketeer.replication import log_sender, pacing
from rocketeer.replication.log_sender import LogSender
from rocketeer.replication.stream import HEADER

SAID = HEADER.pack(-1, 0)


class Log:
    """Of one file."""

    segment_bytes = 1 << 30
    min_offset = 0

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.max_offset = len(data)

    def read(self, offset: int, size: int) -> memoryview:
        return memoryview(self._data)[offset : offset + size]


def read_log(peer: socket.socket, end: int) -> bytes:
    """The log as the stream tells it, read by somebody who takes his time; less when the stream ends before."""
    got, stream = b"", peer.makefile("rb")
    while len(got) < end and len(head := stream.read(HEADER.size)) == HEADER.size:
        if head == SAID:
            continue
        offset, left = HEADER.unpack(head)
        assert offset == len(got), "a piece twice, or one left out"
        while left and (part := stream.read1(min(left, 3_000))):
            got, left = got + part, left - len(part)
            time.sleep(0.0002)
    return got


async def test_what_is_said_while_a_paced_sender_rests_does_not_send_a_piece_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_sender, "HOT_BYTES", -1)  # everything is far behind
    monkeypatch.setattr(log_sender, "THREAD_BYTES", 32 << 10)
    monkeypatch.setattr(log_sender, "loop_busy_s", lambda: 100 * time.monotonic())
    monkeypatch.setattr(pacing, "LOOK_S", 0.0)
    monkeypatch.setattr(pacing, "BUSY_BYTES_PER_S", 2 << 20)
    data = random.Random(7).randbytes(600_000)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
    failures: list[Exception] = []
    sender = LogSender(
        ours,
        Log(data),
        time.monotonic,
        head=HEADER.pack,
        piece_bytes=lambda limit: 10_000,
        failed=failures.append,
    )
    got: list[bytes] = []
    reading = threading.Thread(target=lambda: got.append(read_log(theirs, len(data))), daemon=True)
    reading.start()
    sender.start_at(0)
    sender.wake()
    try:
        async with asyncio.timeout(60):
            while reading.is_alive():
                sender.send_control(SAID)
                await asyncio.sleep(0)
    finally:
        sender.close()  # whoever reads still comes to an end
    theirs.close()
    assert failures == []
    assert got == [data]
