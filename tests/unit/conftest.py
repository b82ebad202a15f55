"""Files of unit tests lie in memory where there is enough of it: most of them would only wait for the disk."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.stores import place_in_memory


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "on_disk: its files lie on a disk: what they say of it is meant")


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    place = place_in_memory()
    if place is None or request.node.get_closest_marker("on_disk") is not None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(
        prefix="rocketeer-unit-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
