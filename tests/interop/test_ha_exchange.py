"""Master and slave of two makes: Apache's broker on either side of the HA stream, and the logs are the same.

Each slave is started empty, with half of the log, killed and started again; so is each master.
Needs Java and Apache's jars (`make interop`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.servers import ApacheMissing, Make, apache_lib
from support.peers import java_peer
from support.replicas import Replicas, log_files
from support.senders import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SIDES: list[tuple[Make, Make]] = [("ours", "apache"), ("apache", "ours")]


@pytest.fixture(autouse=True)
def jars() -> None:
    try:
        apache_lib()
    except ApacheMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=SIDES, ids=["our-master-java-slave", "java-master-our-slave"])
def replicas(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path, *request.param, sync=True)
    try:
        yield made
    except BaseException:
        made.kill()
        raise
    finally:
        for log in sorted(tmp_path.glob("?/*.out")):
            print(f"--- {log}\n{log.read_text(errors='replace')[-3000:]}")
        made.kill()


def test_a_slave_started_empty_with_half_the_log_and_after_kills_has_the_masters_bytes(
    replicas: Replicas,
) -> None:
    replicas.master.start()
    replicas.slave.start()
    replicas.wait_until_followed()
    replicas.load()
    replicas.wait_until_equal()
    replicas.assert_slave_serves()

    # Half of the log is there, the other half comes while it is away.
    replicas.slave.stop_broker()
    sender = replicas.sender()
    sender.start()
    wait_for(lambda: sum(sender.refused.values()) > 300, what="sends without a slave", state=sender)
    sender.finish()
    assert {code for code, _ in sender.refused} == {11}, "SLAVE_NOT_AVAILABLE, and stored"
    replicas.sent.update(sender.sent)
    replicas.slave.start_broker()
    replicas.wait_until_followed()
    replicas.wait_until_equal()

    # Killed under load, started again.
    for kill, start in (
        (replicas.slave.kill_broker, replicas.slave.start_broker),
        (replicas.master.kill_broker, replicas.master.start_broker),
    ):
        sender = replicas.sender()
        sender.start()
        wait_for(lambda sender=sender: len(sender.acked) > 200, what="answers", state=sender)
        kill()
        start()
        replicas.wait_until_followed()
        if not sender.lost_connection:
            sender.finish()
        sender.join(30)
        replicas.note(sender)
        replicas.load(100)
        replicas.wait_until_equal()

    replicas.lose_masters_disk()
    replicas.assert_slave_serves()


def test_a_slave_started_empty_on_a_long_log_has_the_masters_last_file(replicas: Replicas) -> None:
    """What 4.9.8 does with a report of 0; between two of ours the whole log comes (see the unit tests)."""
    replicas.master.start()
    sender = replicas.sender()
    sender.start()
    wait_for(lambda: len(log_files(replicas.master.store)) > 3, what="several files", state=sender)
    sender.finish()
    replicas.slave.start()
    replicas.wait_until_followed()
    replicas.wait_until_equal()
    assert min(log_files(replicas.slave.store)) > min(log_files(replicas.master.store))


@pytest.mark.parametrize("replicas", [("ours", "ours")], indirect=True, ids=["ours"])
def test_a_java_consumer_goes_on_at_our_slave_when_the_master_is_gone(
    replicas: Replicas, tmp_path: Path
) -> None:
    replicas.master.start()
    replicas.slave.start()
    replicas.wait_until_followed()
    nameserver = replicas.master.namesrv
    with Control(replicas.master.broker) as broker:
        broker.create_topic("ToRead", queues=4)
    peer = java_peer(tmp_path)
    try:
        peer.run("send", namesrv=nameserver, topic="ToRead", count=20)
        replicas.wait_until_equal()
        replicas.lose_masters_disk()
        consumer = peer.start("consume", namesrv=nameserver, topic="ToRead", group="CG_late", expect=20)
        consumer.finish(timeout_s=120)
        assert set(consumer.bodies()) == {f"m{number}" for number in range(20)}
    finally:
        peer.stop_all()
