"""The demo, in a small form: it ends by itself, shows every step, leaves a lake and a report; interrupted, nothing."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocketeer.spark.jobs.lake.folder import Lake

pytestmark = pytest.mark.timeout(600)


def start(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "rocketeer", "spark", "demo", "--orders", "400", "--live-s", "1", "-q"]
    command += ["--folder", str(folder), "--master", "local[2]"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)


def processes_with(text: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def test_it_ends_by_itself_and_says_where_to_look(tmp_path: Path) -> None:
    running = start(tmp_path)
    said, _ = running.communicate(timeout=550)
    assert running.returncode == 0, said
    for word in (
        "plain, tagged, keyed",
        "ordered",
        "delayed",
        "timed",
        "transactional",
        "dead letters",
        "traced",
    ):
        assert re.search(rf"[1-9][\d,]* {word}", said), said
    for step in (
        "totals went through the topic",
        "archived",
        "report written",
        "replayed",
        "nothing wrong",
        "read by DuckDB",
    ):
        assert step in said, said
    report, lake = (re.search(rf"^  {name} +(\S+)$", said, re.MULTILINE) for name in ("report", "lake"))
    assert report is not None
    assert lake is not None
    assert re.search(r"^ +Orders +[\d,]+  since \d\d:", said, re.MULTILINE), "by DuckDB"
    assert "<svg" in Path(report[1]).read_text()
    assert Lake.open(lake[1]).state().rows > 400
    assert {path.name for path in Path(lake[1]).parent.iterdir()} == {"lake", "report.html"}


def test_interrupted_it_leaves_nothing_behind(tmp_path: Path) -> None:
    running = start(tmp_path)
    assert running.stdout is not None
    for line in running.stdout:
        if "name server" in line:
            break
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=200)
    assert running.returncode == 130
    assert list(tmp_path.iterdir()) == []
    end_s = time.monotonic() + 30
    while processes_with(str(tmp_path)):
        assert time.monotonic() < end_s, "the cluster is still there"
        time.sleep(0.1)
