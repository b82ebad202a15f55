"""A master and a slave as real processes, of either make each; a ledger of what was acknowledged."""

import contextlib
import shutil
from pathlib import Path

from rocketeer.bench.control import Control
from rocketeer.bench.servers import Make, ServerCluster, Slave
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.cluster import TEST_CONF
from support.senders import Acked, Sender, assert_ledger_holds, read_topic, send_header, wait_for

TOPIC = "Copied"
QUEUES = 4
SEGMENT_BYTES = 1 << 20
CONF: dict[str, object] = {
    **TEST_CONF,
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "haSendHeartbeatInterval": 1000,
    "slaveTimeout": 20_000,
}


def log_files(store: Path) -> dict[str, bytes]:
    """The log's files without the zeros at their ends; files of nothing else are prepared ones."""
    files = {
        path.name: path.read_bytes().rstrip(b"\0")
        for path in sorted((store / "commitlog").glob("[0-9]*"))
        if path.name.isdigit()
    }
    return {name: data for name, data in files.items() if data}


class Replicas:
    """`master` and `slave` start, stop and die as the test says."""

    def __init__(
        self, folder: Path, master: Make, slave: Make, *, sync: bool = False, **conf: object
    ) -> None:
        settings = {**CONF, **conf}
        role = {"brokerRole": "SYNC_MASTER" if sync else "ASYNC_MASTER"}
        self.master = ServerCluster(master, folder / "m", conf={**settings, **role}, heap="512m", ready_s=120)
        self.slave = Slave(slave, folder / "s", self.master, conf=settings, heap="512m", ready_s=120)
        self.sent: set[bytes] = set()
        self.acked: list[Acked] = []
        self._phase = 0

    def kill(self) -> None:
        self.slave.kill()
        self.master.kill()

    # --- load --------------------------------------------------------------------------------

    def sender(self, *, window: int = 16) -> Sender:
        self._phase += 1
        return Sender(self.master.broker, TOPIC, name=f"phase{self._phase}", queues=QUEUES, window=window)

    def load(self, count: int = 400) -> None:
        """So many sends and more, all answered with success."""
        sender = self.sender()
        sender.start()
        wait_for(lambda: len(sender.acked) >= count or not sender.is_alive(), what="answers", state=sender)
        sender.finish()
        assert not sender.refused, sender
        self.note(sender)

    def note(self, sender: Sender) -> None:
        self.sent.update(sender.sent)
        self.acked += sender.acked

    def wait_until_followed(self) -> None:
        """Until a send to a SYNC_MASTER is answered with success."""

        def is_followed() -> bool:
            with Control(self.master.broker, timeout_s=30) as broker:
                ext = send_header("Probe", 0, "TAGS\x01TagA\x02")
                return broker.call(RequestCode.SEND_MESSAGE_V2, ext, b"probe").code == ResponseCode.SUCCESS

        wait_for(is_followed, what="a slave", timeout_s=60)

    # --- what must hold ----------------------------------------------------------------------

    def wait_until_equal(self) -> None:
        """Until both logs end alike; then they are equal over what both hold."""

        def ends() -> tuple[tuple[str, int] | None, ...]:
            last = [list(log_files(each.store).items()) for each in (self.master, self.slave)]
            return tuple((files[-1][0], len(files[-1][1])) if files else None for files in last)

        def alike() -> bool:
            master, slave = ends()
            return master is not None and master == slave

        wait_for(alike, what="logs that end alike", timeout_s=90)
        master, slave = log_files(self.master.store), log_files(self.slave.store)
        common = master.keys() & slave.keys()
        assert common
        for name in sorted(common):
            assert master[name] == slave[name], f"{name} differs"

    def assert_slave_serves(self) -> None:
        """Everything acknowledged, where it was acknowledged, read from the slave."""
        address = self.slave.broker

        def is_complete() -> bool:
            with contextlib.suppress(AssertionError):  # the slave may not know the topic yet
                return sum(map(len, read_topic(address, TOPIC, QUEUES))) >= len(self.acked)
            return False

        wait_for(is_complete, what="all messages on the slave")
        assert_ledger_holds(read_topic(address, TOPIC, QUEUES), sent=self.sent, acked=self.acked)

    def lose_masters_disk(self) -> None:
        self.master.kill_broker()
        shutil.rmtree(self.master.store)
