"""The independent measuring stick: tools/loadgen.c, compiled and run on the same servers as our own generator."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from rocketeer.bench.control import split_address
from rocketeer.bench.processes import ServerFailed
from rocketeer.bench.session import Plan, Server, prepare

_SOURCE = Path(__file__).parents[3] / "tools" / "loadgen.c"


def compiled(folder: Path) -> Path:
    """The program, built with the machine's C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not _SOURCE.exists():
        raise ServerFailed(f"loadgen needs a C compiler and {_SOURCE}")
    program = folder / "loadgen"
    subprocess.run([compiler, "-O2", "-w", "-o", str(program), str(_SOURCE)], check=True)
    return program


def run_loadgen(program: Path, server: Server, plan: Plan, mode: str) -> dict[str, Any]:
    """One run with the figures loadgen prints; mode is send, batch or pull."""
    topic = prepare(server, plan).topics[0]
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
