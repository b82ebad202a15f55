"""A page that the disk does not give back is an error for whoever asks for it, and nobody else's trouble."""

import os
from pathlib import Path

import pytest

from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from support.cluster import running_cluster
from support.raw_connection import RawConnection
from support.records import split_records
from support.senders import pull_header, send_header

TOPIC = "Damaged"


def pull(line: RawConnection, offset: int, **ext: str) -> Command:
    return line.ask(request(RequestCode.PULL_MESSAGE, pull_header(TOPIC, 0, offset) | ext))


COUNT = 60


def fill(line: RawConnection) -> None:
    """A queue over some files of the log."""
    for number in range(COUNT):
        header = send_header(TOPIC, 0, "TAGS\x01TagA")
        answer = line.ask(request(RequestCode.SEND_MESSAGE_V2, header, b"%04d" % number * 25_000))
        assert answer.code == ResponseCode.SUCCESS, answer.remark


@pytest.mark.parametrize("subscription", ["*", "TagA"])
def test_a_pull_of_what_cannot_be_read_is_refused_and_the_broker_lives(
    tmp_path: Path, subscription: str
) -> None:
    with running_cluster(tmp_path, conf={"mappedFileSizeCommitLog": 2 << 20}) as cluster:
        with RawConnection(cluster.broker) as line:
            fill(line)
        first = tmp_path / "store" / "commitlog" / f"{0:020d}"
        whole = first.read_bytes()
        # Behind the end of a file the kernel has no page to give: what looks there dies of SIGBUS, as with EIO.
        os.truncate(first, 300_000)
        with RawConnection(cluster.broker) as line:
            readable = pull(line, 0)
            assert readable.code == ResponseCode.SUCCESS
            found = len(list(split_records(readable.body)))
            assert 0 < found < 10
            for _ in range(3):
                refused = pull(line, 10, subscription=subscription)
                assert refused.code == ResponseCode.SYSTEM_ERROR
                assert "disk does not give back" in (refused.remark or "")
            behind = pull(line, COUNT - 5)
            assert behind.code == ResponseCode.SUCCESS
            assert len(list(split_records(behind.body))) > 0
            first.write_bytes(whole)  # the disk has come to its senses
            assert pull(line, 10).code == ResponseCode.SUCCESS
