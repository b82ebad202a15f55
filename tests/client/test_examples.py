"""Every example runs as it stands, and prints what its first lines promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.cluster import ServerCluster

pytestmark = pytest.mark.own_cluster

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def run(cluster: ServerCluster, *command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "NAMESRV_ADDR": cluster.namesrv},
        capture_output=True,
        text=True,
        timeout=90,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_prints_what_it_promises(cluster: ServerCluster, example: Path) -> None:
    promised = re.search(r"Prints: (.+)$", example.read_text(), re.MULTILINE)
    assert promised is not None, "an example says what it prints"
    assert run(cluster, str(example)).strip().endswith(promised[1])


def test_an_app_runs_from_the_shell(cluster: ServerCluster) -> None:
    start = "import typer; from rocketeer.cli.run import run; typer.run(run)"
    said = run(cluster, "-c", start, "order_app:app", "-n", cluster.namesrv, cwd=EXAMPLES[0].parent)
    assert said.strip().endswith("order 7 was shipped")
