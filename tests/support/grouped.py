"""Load on a group with a ledger of all that was sent and acknowledged, whoever led; what a person asks of a group."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping

from rocketeer.bench.control import Control
from rocketeer.bench.groups import NAME, GroupCluster, MemberProcess
from rocketeer.errors import GroupError, RemotingError
from rocketeer.group.state import is_alive
from rocketeer.protocol.codes import RequestCode
from support.cluster import TEST_CONF
from support.senders import Acked, Sender, assert_ledger_holds, read_topic, send_header, wait_for

GROUP_CONF: Mapping[str, object] = {**TEST_CONF, "groupLeaseSeconds": 4}
"""A busy machine is no reason to elect anew."""
TOPIC = "Kept"
QUEUES = 4


def leader_number(group: GroupCluster) -> int | None:
    """Who leads by etcd's record; None while nobody does."""
    with contextlib.suppress(GroupError):
        view = group.view()
        if view.state is not None and is_alive(view.state.leader, view.live):
            return view.state.leader.member
    return None


def others(group: GroupCluster, member: MemberProcess) -> list[MemberProcess]:
    return [each for each in group.members if each is not member]


def send(address: str, body: bytes, *, timeout_s: float = 3) -> int:
    """The code of the answer; -1 without one."""
    try:
        with Control(address, timeout_s=timeout_s) as broker:
            ext = send_header(TOPIC, 0, "TAGS\x01TagA\x02")
            return broker.call(RequestCode.SEND_MESSAGE_V2, ext, body).code
    except (RemotingError, OSError):
        return -1


def group_command(group: GroupCluster, *words: object, code: int = 0) -> str:
    """What `rocketeer group ...` says, if it ends with this code."""
    command = [sys.executable, "-m", "rocketeer.cli.main", "group", *map(str, words)]
    done = subprocess.run(
        [*command, "--etcd", group.etcd.endpoint, "--broker", NAME],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


class Ledger:
    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.acked: list[Acked] = []
        self._senders = 0

    @contextlib.contextmanager
    def load(self, address: str, *, least: int = 300) -> Iterator[Sender]:
        """A sender of which so many sends have been answered; it goes on until the block ends, or its broker."""
        sender = self._answered(address, least)
        try:
            yield sender
        finally:
            sender.finish()
            self._note(sender)

    def _answered(self, address: str, least: int) -> Sender:
        """Begun again while too few members are in sync."""

        def is_decided() -> bool:
            return len(sender.acked) >= least or bool(sender.refused) or not sender.is_alive()

        for _ in range(200):
            self._senders += 1
            sender = Sender(address, TOPIC, name=f"sender{self._senders}", queues=QUEUES, window=16)
            sender.start()
            wait_for(is_decided, what="answers", state=sender)
            if not sender.refused and sender.is_alive():
                return sender
            sender.finish()
            self._note(sender)
        raise AssertionError(f"{address} takes no sends: {sender}")

    def _note(self, sender: Sender) -> None:
        self.sent.update(sender.sent)
        self.acked += sender.acked

    def assert_holds(self, address: str) -> None:
        """Everything acknowledged can be read where it was acknowledged, once, and nothing that nobody sent."""

        def is_complete() -> bool:
            with contextlib.suppress(AssertionError, RemotingError, OSError):
                ends = [0] * QUEUES
                for ack in self.acked:
                    ends[ack.queue_id] = max(ends[ack.queue_id], ack.queue_offset + 1)
                queues = read_topic(address, TOPIC, QUEUES)
                return all(len(queue) >= end for queue, end in zip(queues, ends, strict=True))
            return False

        wait_for(is_complete, what="what was acknowledged")
        assert_ledger_holds(read_topic(address, TOPIC, QUEUES), sent=self.sent, acked=self.acked)
