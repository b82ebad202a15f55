"""Laws of the doctor: what is well is said, what is not comes with what to change, and only that ends with 1."""

import json
import socket
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from rocketeer.cli.doctor import disk, machine, network
from rocketeer.cli.doctor.finding import Level
from rocketeer.cli.preflight import Port
from rocketeer.testing import cluster


def test_few_open_files_are_wrong_and_many_are_well() -> None:
    assert machine.open_files(256, 512).level is Level.WRONG
    assert machine.open_files(1024, 4096).level is Level.ADVICE
    assert "LimitNOFILE" in machine.open_files(1024, 4096).change
    assert machine.open_files(1024, 1_048_576).level is Level.OK


def test_kernel_settings_are_judged_and_told_how_to_change() -> None:
    assert machine.map_count(65_530).change.startswith("sysctl -w vm.max_map_count=")
    assert machine.map_count(655_360).level is Level.OK
    assert machine.swappiness(60).level is Level.ADVICE
    assert machine.swappiness(1).level is Level.OK
    assert machine.swappiness(None).level is Level.ADVICE


def test_memory_is_the_less_of_what_machine_and_container_have(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 8000000 kB\nMemAvailable:    2000 kB\n")
    available = machine.available_bytes(tmp_path)
    assert available is not None
    assert available <= 2000 * 1024
    assert machine.memory(available).level is Level.ADVICE
    assert machine.memory(2 << 30).level is Level.OK


def test_the_kernel_says_whether_the_clock_is_kept() -> None:
    assert machine.clock(0).level is Level.OK
    assert machine.clock(5).level is Level.ADVICE
    assert machine.clock_state() in (None, 0, 1, 2, 3, 4, 5)


def test_the_disk_is_really_written_to(tmp_path: Path) -> None:
    found = {each.what: each for each in disk.disk_findings(tmp_path / "not" / "made" / "yet")}
    assert set(found) == {"disk space", "file system", "fsync"}
    assert "ms until 4 KiB are safe" in found["fsync"].seen
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    assert disk.sync_time(tmp_path, 50.0).level is Level.ADVICE
    assert disk.room(tmp_path, 0.8, 1).level is Level.ADVICE
    assert disk.room(tmp_path, 0.95, 1).level is Level.WRONG, "a broker takes no more messages there"
    assert disk.file_system(tmp_path, "nfs4").level is Level.ADVICE


def test_a_disk_is_as_full_as_the_broker_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a disk is kept for root, and is no room for messages."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: namedtuple("usage", "total used free")(1000, 600, 200))
    (found,) = [each for each in disk.disk_findings(tmp_path) if each.what == "disk space"]
    assert found.seen.startswith("75% full")


def test_a_store_nobody_may_write_to_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # tests may run as root, who may write everywhere
    (found,) = disk.disk_findings(tmp_path)
    assert found.level is Level.WRONG


def test_the_file_system_is_that_of_the_longest_mount_point(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("a / ext4 rw 0 0\nb /data xfs rw 0 0\nc /data/deep nfs4 rw 0 0\n")
    assert disk.kind_of(Path("/data/store"), mounts) == "xfs"
    assert disk.kind_of(Path("/data/deep/store"), mounts) == "nfs4"
    assert disk.kind_of(Path("/database"), mounts) == "ext4"


def test_a_port_somebody_else_has_is_wrong_and_a_free_one_is_well() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        number = taken.getsockname()[1]
        (found,) = network.port_findings([Port("127.0.0.1", number, "broker")])
        assert found.level is Level.WRONG
        assert "already in use" in found.change
    (found,) = network.port_findings([Port("127.0.0.1", number, "broker")])
    assert found.level is Level.OK


def test_a_running_cluster_is_reached_where_it_says_it_is() -> None:
    with cluster() as running:
        host, _, port = running.broker.partition(":")
        slaves = Port(host, int(port) + 1, network.SLAVES)
        found, ha_port = network.port_findings([Port(host, int(port), network.BROKER), slaves])
        assert (found.level, "listens there" in found.seen) == (Level.OK, True)
        assert (ha_port.level, ha_port.seen) == (Level.OK, "taken, and the broker runs (broker's slaves)")
        (alone,) = network.port_findings([slaves])
        assert alone.level is Level.WRONG  # somebody else's, for all that is known
        nameserver, broker = network.cluster_findings([running.nameserver])
        assert "knows 1 broker" in nameserver.seen
        assert broker.seen == f"reached at {running.broker}, the address it tells clients"
    (gone,) = network.cluster_findings([running.nameserver])
    assert gone.level is Level.WRONG


def test_an_address_only_this_machine_has_is_pointed_out() -> None:
    assert network.own_address("127.0.0.1").level is Level.ADVICE
    assert network.own_address("0.0.0.0").level is Level.WRONG
    assert network.own_address("10.0.0.1").level is Level.OK
    assert network.own_address("10.0.0.1:30911").level is Level.OK
    assert network.own_address("127.0.0.1:30911").level is Level.ADVICE
    assert network.own_address("no-such-host.invalid:1").level is Level.WRONG
    assert network.own_address("2001:db8::1").level is Level.OK


def test_the_command_prints_json_and_leaves_with_1_when_something_is_wrong(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "rocketeer.cli.main", "doctor", "--store", str(tmp_path), "--json"]
    ran = subprocess.run([*words, "-n", "127.0.0.1:9"], capture_output=True, text=True, timeout=60)
    found = {each["what"]: each for each in json.loads(ran.stdout)}
    assert ran.returncode == 1
    assert found["name server 127.0.0.1:9"]["level"] == "wrong"
    assert {"open files", "memory", "clock", "fsync", "Java for Spark"} <= set(found)
