"""A console in this process over a real cluster; requests by Starlette's client."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from rocketeer import Message, Producer
from rocketeer.console.app import make_app
from rocketeer.console.config import ClusterConfig, ConsoleConfig
from rocketeer.testing import Cluster, cluster

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture(scope="session")
def shop() -> Iterator[Cluster]:
    """Orders with keys, a body that would be a script, a body that is no text."""
    with cluster() as running:
        with Producer("shop", nameserver=running.nameserver) as producer:
            for number in range(30):
                producer.send(
                    Message("orders", b'{"number": %d}' % number, tags="created", keys=f"order-{number}")
                )
            producer.send(Message("hostile", HOSTILE.encode(), keys=HOSTILE, tags=HOSTILE))
            producer.send(Message("hostile", bytes(range(256)), keys="binary"))
        yield running


@pytest.fixture
def browser(shop: Cluster) -> Iterator[TestClient]:
    config = ConsoleConfig(clusters=(ClusterConfig(name="shop", nameserver=shop.nameserver),))
    with TestClient(make_app(config), base_url="http://127.0.0.1") as client:
        yield client
