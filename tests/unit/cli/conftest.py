"""A shell with its own home folder and free ports; whatever it started is gone after the test."""

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


@pytest.fixture
def base_port() -> int:
    """The first port of two brokers, spaced by 10; the name server may have the port 5 above it."""
    for _ in range(100):
        base = random.randrange(12_000, 30_000)
        if all(is_free(base + step) for step in (-2, 0, 1, 5, 8, 10, 11)):
            return base
    raise AssertionError("no free ports on this machine")
