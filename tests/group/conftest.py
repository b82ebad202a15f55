"""Groups of brokers as real processes; without an etcd the tests that need one say so."""

from collections.abc import Iterator

import pytest

from rocketeer.bench.groups import GroupCluster
from support.grouped import GROUP_CONF, Ledger
from support.needs_etcd import needs_etcd


@pytest.fixture(autouse=True)
def _needs_etcd() -> None:
    needs_etcd()


@pytest.fixture(scope="module")
def _kept_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GroupCluster, Ledger]]:
    conf = {**GROUP_CONF, "groupLagMs": 1500}
    with GroupCluster(tmp_path_factory.mktemp("group"), conf=conf) as group:
        yield group, Ledger()


@pytest.fixture
def group(_needs_etcd: None, request: pytest.FixtureRequest) -> GroupCluster:
    """One group for all tests of a module, whole again before each: what they do to it, it has to survive."""
    group: GroupCluster = request.getfixturevalue("_kept_group")[0]
    for member in group.members:
        if member.paused:
            member.resume()
        if not member.running:
            member.start()
    group.wait_until_in_sync()
    group.wait_for_leader()
    return group


@pytest.fixture
def ledger(group: GroupCluster, request: pytest.FixtureRequest) -> Ledger:
    """Of that group, over all tests."""
    ledger: Ledger = request.getfixturevalue("_kept_group")[1]
    return ledger
