"""What a user's tests rely on: up in a moment, really a broker, and nothing left behind."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rocketeer import Message, Producer
from rocketeer.config.ports import free_ports
from rocketeer.testing import Cluster, cluster
from support.consuming import until_sync


def test_a_message_can_be_sent_to_it_and_it_survives_a_restart(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        with Producer("G", nameserver=running.nameserver) as producer:
            assert producer.send(Message("T", b"one")).queue_offset == 0
        running.stop()
        running.start()
        with Producer("G2", nameserver=running.nameserver) as producer:
            queue = producer.queues("T")[0]
            offsets = {producer.send(Message("T", b"n"), queue=queue).queue_offset for _ in range(3)}
        assert max(offsets) in (2, 3), "the first message may have gone to this queue"


def test_a_port_that_somebody_takes_first_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        nameserver, broker = free_ports()
        choices = iter([(port, broker), (nameserver, port), (nameserver, broker)])
        monkeypatch.setattr(sys.modules[Cluster.__module__], "free_ports", lambda: next(choices))
        with cluster() as running, Producer("G", nameserver=running.nameserver) as producer:
            assert (running.nameserver, running.broker) == (f"127.0.0.1:{nameserver}", f"127.0.0.1:{broker}")
            assert producer.send(Message("T", b"x")).ok
    until_sync(lambda: set(threading.enumerate()) <= before, "nothing is left of the first tries")


def test_the_fixture_is_found_by_itself(rocketeer_cluster: Cluster) -> None:
    with Producer("G", nameserver=rocketeer_cluster.nameserver) as producer:
        assert producer.send(Message("T", b"x")).message_id


ALONE = """
import threading, time
from rocketeer.testing import cluster
began_s = time.monotonic()
with cluster():
    took_s = time.monotonic() - began_s
assert took_s < 10, "well under a second on an idle machine; the bound allows for a loaded one"
give_up_s = time.monotonic() + 10
while threading.active_count() > 1 and time.monotonic() < give_up_s:
    time.sleep(0.01)
assert threading.active_count() == 1, f"threads left behind: {threading.enumerate()}"
"""


def test_it_is_up_within_moments_and_leaves_no_thread() -> None:
    """In a process of its own: clusters of other tests come and go with their threads."""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
