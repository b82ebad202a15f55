"""The independent measuring stick: tools/loadgen.c, compiled and run on the same servers as our own generator.

With it comes tools/bare.c, a server that stores nothing: what it cannot do, the machine does not allow.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocketeer.bench.processes import ServerFailed, ServerProcess
from rocketeer.bench.session import BenchServer, LoadPlan, broker_cores, prepare
from rocketeer.config.ports import free_ports
from rocketeer.remoting.address import split_address

_SOURCES = Path(__file__).parents[3] / "tools"
_BARE = "a server that stores nothing"


def compiled(folder: Path, name: str = "loadgen") -> Path:
    """A program of tools/, built with the machine's C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    source = _SOURCES / f"{name}.c"
    if compiler is None or not source.exists():
        raise ServerFailed(f"{name} needs a C compiler and {source}")
    program = folder / name
    subprocess.run([compiler, "-O2", "-w", "-o", str(program), str(source)], check=True)
    return program


@contextlib.contextmanager
def bare_server(folder: Path) -> Iterator[BenchServer]:
    """A server that answers sends and does nothing else, on the core that our broker has."""
    core, load_cores = broker_cores()
    port, _ = free_ports()
    program = compiled(folder, "bare")
    process = ServerProcess([str(program), str(port)], log=folder / "bare.log", cores=core)
    try:
        process.wait_until(lambda: _answers(port), timeout_s=10, what=_BARE)
        yield BenchServer(
            label=_BARE, make=None, address=f"127.0.0.1:{port}", pid=process.pid, load_cores=load_cores
        )
    finally:
        process.kill()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def run_loadgen(program: Path, server: BenchServer, plan: LoadPlan, mode: str) -> dict[str, Any]:
    """One run with the figures loadgen prints; mode is send, batch or pull."""
    topic = "bare" if server.label == _BARE else prepare(server, plan).topics[0]
    _, port = split_address(server.address)
    words = ["-p", port, "-t", topic, "-q", plan.queues, "-c", plan.connections, "-w", plan.in_flight]
    words += [
        "-b",
        plan.body_bytes,
        "-s",
        plan.seconds,
        "-m",
        mode,
        *(["-P", server.pid] if server.pid else []),
        *(["-r", plan.rate] if plan.rate else []),
    ]
    cores = server.load_cores
    done = subprocess.run(
        [str(program), *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=plan.seconds + 30,
        preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
    )
    if done.returncode:
        raise ServerFailed(f"loadgen on {server.label}: {done.stderr.strip()}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return {"server": server.label, **figures}
