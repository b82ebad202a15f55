"""The fixture that pytest finds by itself once Rocketeer is installed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rocketeer.testing import Cluster, Isolated


@pytest.fixture(scope="session")
def rocketeer_cluster() -> "Iterator[Cluster]":
    """A name server and a broker in this process, shared by the whole session: use your own topics."""
    from rocketeer.testing import cluster  # only who asks for it pays for it

    with cluster() as running:
        yield running


@pytest.fixture
def rocketeer_isolated(rocketeer_cluster: "Cluster") -> "Isolated":
    """Topics and groups of this test alone, in that cluster."""
    from rocketeer.testing import Isolated

    return Isolated(rocketeer_cluster)
