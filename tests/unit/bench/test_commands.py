"""Every command of `rocketeer bench` starts, and takes its options one by one though functions take them in groups."""

import inspect
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketeer.bench.cli import app
from rocketeer.bench.options import BenchTarget, Shape, Start
from rocketeer.option_groups import with_options

COMMANDS = [
    each.name or each.callback.__name__ for each in app.registered_commands if each.name or each.callback
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0, result.output


def test_what_the_documentation_names_is_there() -> None:
    assert {"send", "batch", "pull", "e2e", "topics", "idle", "bars", "loadgen", "client"} <= set(COMMANDS)


def test_a_group_of_options_is_one_argument_of_the_function() -> None:
    seen: list[tuple[BenchTarget, Shape, int]] = []

    def command(where: BenchTarget, shape: Shape, extra: int = 7) -> None:
        seen.append((where, shape, extra))

    expanded = with_options(command)
    assert {"target", "start", "connections", "rounds", "extra"} <= set(
        inspect.signature(expanded).parameters
    )
    given = {name: each.default for name, each in inspect.signature(expanded).parameters.items()}
    expanded(**{**given, "target": "127.0.0.1:1", "rounds": 9})
    ((where, shape, extra),) = seen
    assert (where.target, where.start, shape.rounds, shape.connections, extra) == (
        "127.0.0.1:1",
        Start.ours,
        9,
        16,
        7,
    )


def test_a_terminated_benchmark_takes_its_servers_along() -> None:
    command = [sys.executable, "-m", "rocketeer.cli.main", "bench", "send", "--seconds", "60"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bench:
        give_up_s = time.monotonic() + 60
        while len(servers := _children(bench.pid)) < 2:
            assert time.monotonic() < give_up_s, "it starts no servers"
            time.sleep(0.1)
        bench.terminate()
        assert bench.wait(60) == 128 + signal.SIGTERM
    give_up_s = time.monotonic() + 60
    while left := [pid for pid in servers if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < give_up_s, f"still there: {left}"
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
