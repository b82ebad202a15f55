"""`rocketeer audit STORE` as a program: on a running broker's store, on a copy that is well, on one that is not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rocketeer import Message, Producer
from rocketeer.record.layout import HEADS
from rocketeer.testing import cluster
from support.audited import write_store


def audit(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rocketeer", "audit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "store"
    write_store(folder)
    return folder


def test_a_running_brokers_store_is_proved_while_it_is_written() -> None:
    with (
        cluster(store_settings={"segment_bytes": 1 << 20}) as running,
        Producer("P", nameserver=running.nameserver) as producer,
    ):
        for number in range(300):
            producer.send(Message("Audited", b"%d" % number * 300, keys=f"k{number}"))
        futures = [producer.send_async(Message("Audited", b"meanwhile", keys="m")) for _ in range(2000)]
        ran = audit(running.store, "--json", "-", "--workers", "2")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        report = json.loads(ran.stdout)
        assert report["ok"]
        assert not report["exact"]
        assert report["facts"]["records"] >= 300
        for future in futures:
            future.result(30)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_store_that_is_well_leaves_with_0_and_a_damaged_one_with_1(
    healthy: Path, tmp_path: Path, workers: int
) -> None:
    well = audit(healthy, "--workers", workers)
    assert (well.returncode, "nothing wrong" in well.stdout) == (0, True), well.stdout + well.stderr
    store = tmp_path / "store"
    shutil.copytree(healthy, store)
    segment = sorted((store / "commitlog").iterdir())[0]
    raw = bytearray(segment.read_bytes())
    raw[HEADS[0].size] ^= 0xFF  # the first byte of the first body
    segment.write_bytes(raw)
    ran = audit(store, "--workers", workers)
    assert ran.returncode == 1
    assert "things are wrong" in ran.stdout
    assert segment.name in ran.stdout


def test_a_folder_that_is_no_store_is_an_error_in_one_line(tmp_path: Path) -> None:
    ran = audit(tmp_path)
    assert ran.returncode == 1
    assert "is not a store: it has no folder commitlog" in ran.stderr
    assert "Traceback" not in ran.stderr
