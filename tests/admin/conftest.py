"""One cluster of two brokers for all admin tests; each test uses topics and groups of its own."""

import itertools
from collections.abc import Iterator

import pytest

from rocketeer import Admin
from support.two_brokers import TwoBrokers, two_brokers

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    with two_brokers(tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture(scope="session")
def admin(pair: TwoBrokers) -> Iterator[Admin]:
    with Admin(pair.namesrv) as started:
        yield started


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name no other test uses, for a topic or a group."""
    return f"N{next(_numbers)}-{request.node.name[:40].translate(str.maketrans('[]', '--'))}"
