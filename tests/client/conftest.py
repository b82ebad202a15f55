"""One cluster per module: ours, or with ROCKETEER_PEER=apache the one whose behaviour is the reference."""

import itertools
from collections.abc import Iterator

import pytest

from support.cluster import Cluster, chosen_make, running_cluster

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), peer=chosen_make()) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic no other test uses; nobody has made it yet."""
    return f"T{next(_numbers)}-{request.node.name[:60].translate(str.maketrans('[]', '--'))}"
