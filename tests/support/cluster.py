"""Real servers for tests: `from support.cluster import ServerCluster, running_cluster`.

`ServerCluster` itself lives with the benchmark (rocketeer.bench.servers), which needs the same thing.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rocketeer.bench.servers import Make, ServerCluster

__all__ = ["Make", "ServerCluster", "chosen_make", "open_files", "restart_broker", "running_cluster"]

# Small files, so that many clusters fit on a test machine, and short delays, so that a retry comes at once and an
# open transaction is asked after soon.
TEST_CONF: Mapping[str, object] = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 20_000 * 20,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 1000,
    "messageDelayLevel": "1s 1s 1s 2s 2s 3s 3s 4s 4s 5s 5s 6s 6s 7s 7s 8s 8s 9s",
    # A busy machine is no reason to refuse: after 200 ms in a queue a request would be answered SYSTEM_BUSY.
    "waitTimeMillsInSendQueue": 20_000,
    "waitTimeMillsInPullQueue": 20_000,
    "waitTimeMillsInHeartbeatQueue": 60_000,
    "waitTimeMillsInTransactionQueue": 20_000,
    "osPageCacheBusyTimeOutMills": 20_000,
}


def chosen_make() -> Make:
    """Which broker the interop tests run against: ours, or with ROCKETEER_PEER=apache the one they were proven on."""
    return "apache" if os.environ.get("ROCKETEER_PEER") == "apache" else "ours"


@contextmanager
def running_cluster(
    folder: Path, *, peer: Make = "ours", conf: Mapping[str, object] | None = None
) -> Iterator[ServerCluster]:
    """A name server and a broker with test-sized files."""
    cluster = ServerCluster(peer, folder, conf={**TEST_CONF, **(conf or {})}, heap="512m")
    with started(cluster):
        yield cluster


@contextmanager
def started(cluster: ServerCluster) -> Iterator[None]:
    """For as long as the block lasts; the servers' logs are printed when it fails."""
    try:
        cluster.start()
        yield
    except BaseException:
        for log in sorted(cluster.folder.glob("*.out")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}")
        cluster.kill()
        raise
    cluster.stop()


def restart_broker(cluster: ServerCluster, *, kill: bool = False) -> None:
    """The broker goes (cleanly, or by kill -9) and comes back with its store."""
    if kill:
        cluster.kill_broker()
    else:
        cluster.stop_broker()
    cluster.start_broker()


def open_files(pid: int) -> int:
    """How many file descriptors the process holds."""
    return len(os.listdir(f"/proc/{pid}/fd"))
