"""Master and slave as processes that are killed, stopped and starved of disk: what was acknowledged is on both."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.bench.servers import ServerCluster
from rocketeer.protocol.codes import ResponseCode
from support.replicas import Replicas
from support.senders import Sender, wait_for
from support.volumes import fill, small_volume

QUICK = {"haHousekeepingInterval": 3000, "haSendHeartbeatInterval": 500}


@pytest.fixture
def replicas(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path, "ours", "ours", **{"sync": True, **getattr(request, "param", {})})
    try:
        yield made
    finally:
        for log in sorted(tmp_path.glob("?/broker.out")):
            text = log.read_text(errors="replace")
            print(f"--- {log}\n" + "\n".join([x for x in text.splitlines() if "rolled" not in x][-30:]))
        made.kill()


def stop(broker: ServerCluster) -> None:
    os.kill(broker.broker_process.pid, signal.SIGSTOP)


def go_on(broker: ServerCluster) -> None:
    os.kill(broker.broker_process.pid, signal.SIGCONT)


def logged(broker: ServerCluster, text: str) -> bool:
    return text in (broker.folder / "broker.out").read_text(errors="replace")


def loading(replicas: Replicas) -> Sender:
    sender = replicas.sender()
    sender.start()
    wait_for(lambda: len(sender.acked) > 100, what="answers", state=sender)
    return sender


def test_what_a_sync_master_acknowledged_is_on_its_slave_whoever_was_killed_when(replicas: Replicas) -> None:
    replicas.master.start()
    replicas.slave.start()
    replicas.wait_until_followed()
    replicas.load()
    for broker in (replicas.slave, replicas.master):
        sender = loading(replicas)
        broker.kill_broker()
        broker.start_broker()
        replicas.wait_until_followed()
        if sender.is_alive():
            sender.finish()
        sender.join(30)
        replicas.note(sender)
        replicas.wait_until_equal()
    sender = loading(replicas)
    replicas.lose_masters_disk()
    sender.join(30)
    replicas.note(sender)
    replicas.assert_slave_serves()


@pytest.mark.parametrize("replicas", [{**QUICK, "slaveTimeout": 300}], indirect=True)
def test_a_stopped_slave_costs_time_outs_and_then_nothing(replicas: Replicas) -> None:
    replicas.master.start()
    replicas.slave.start()
    replicas.wait_until_followed()
    sender = loading(replicas)
    stop(replicas.slave)
    wait_for(
        lambda: (
            {code for code, _ in sender.refused}
            >= {ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
        ),
        what="first time-outs, then no slave",
        state=sender,
    )
    go_on(replicas.slave)
    replicas.wait_until_followed()
    sender.finish()
    replicas.note(sender)
    replicas.wait_until_equal()
    replicas.assert_slave_serves()


@pytest.mark.parametrize("replicas", [QUICK], indirect=True)
def test_a_stopped_master_is_followed_again_when_it_goes_on(replicas: Replicas) -> None:
    replicas.master.start()
    replicas.slave.start()
    replicas.wait_until_followed()
    sender = loading(replicas)
    stop(replicas.master)
    wait_for(lambda: logged(replicas.slave, "nothing came from the master"), what="a slave that noticed")
    go_on(replicas.master)
    replicas.wait_until_followed()
    sender.finish()
    replicas.note(sender)
    replicas.load(100)
    replicas.wait_until_equal()
    replicas.assert_slave_serves()


@pytest.mark.parametrize(
    "replicas",
    [
        {
            "sync": False,
            "diskSpaceWarningLevelRatio": 100,
            "diskSpaceCleanForciblyRatio": 100,
            "diskMaxUsedSpaceRatio": 100,
        }
    ],
    indirect=True,
)
def test_a_slave_whose_disk_is_full_says_so_serves_on_and_catches_up_when_there_is_room(
    replicas: Replicas,
) -> None:
    store = replicas.slave.store
    with small_volume(store, megabytes=48):
        replicas.master.start()
        replicas.slave.start()
        replicas.load(200)
        replicas.wait_until_equal()
        ballast = fill(store)
        replicas.load(3000)
        wait_for(lambda: logged(replicas.slave, "the disk of the commit log is full"), what="a word of it")
        assert replicas.slave.broker_process.running
        ballast.unlink()
        replicas.wait_until_equal()
        replicas.assert_slave_serves()
        replicas.slave.kill()
