"""A shell with its own home folder and free ports; whatever it started is gone after the test."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.shell import Shell, is_free


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    home = tmp_path / "home"
    home.mkdir()
    shell = Shell(home)
    yield shell
    shell.end_all()


# Above the ports of all other tests, below those the kernel hands out by itself, and a part for each process.
FIRST_PORT, PORTS_EACH, PARTS = 30_000, 690, 4


@pytest.fixture
def base_port() -> int:
    """The first port of two brokers, spaced by 10; the name server may have the port 5 above it."""
    part = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PARTS
    for _ in range(100):
        base = FIRST_PORT + part * PORTS_EACH + random.randrange(2, PORTS_EACH - 14)
        if all(is_free(base + step) for step in (-2, 0, 1, 5, 8, 10, 11, 13)):
            return base
    raise AssertionError("no free ports on this machine")
