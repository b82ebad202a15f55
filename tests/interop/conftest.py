"""One cluster for the laws of a client; the restart laws use it too, as a broker in production would be used.

Tests that need Java or Node carry the mark `interop` and run only when asked for: `pytest -m interop`.
"""

from collections.abc import Iterator

import pytest

from support.cluster import ServerCluster, chosen_make, running_cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "interop: clients that PyPI alone does not bring (`make interop`)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "interop" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("interop")])
        items[:] = [item for item in items if not item.get_closest_marker("interop")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), peer=chosen_make()) as running:
        yield running
