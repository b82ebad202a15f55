"""One cluster for all tests of a process: ours, or with ROCKETEER_PEER=apache the one whose behaviour is the reference.

Each test has topics and groups of its own. Files whose tests stop a server, or use names that others use as well, have a
cluster of their own: `pytestmark = pytest.mark.own_cluster`.
"""

import itertools
from collections.abc import Iterator

import pytest

from support.cluster import ServerCluster, chosen_make, running_cluster

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "own_cluster: the tests of this file share their cluster with no other"
    )


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), peer=chosen_make()) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerCluster]:
    if request.node.get_closest_marker("own_cluster") is None:
        yield request.getfixturevalue("shared_cluster")
        return
    with running_cluster(tmp_path_factory.mktemp("cluster"), peer=chosen_make()) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic no other test uses; nobody has made it yet."""
    return f"T{next(_numbers)}-{request.node.name[:60].translate(str.maketrans('[]', '--'))}"
