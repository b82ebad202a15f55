"""Groups of brokers as real processes; without an etcd the tests that need one say so."""

import pytest

from rocketeer.errors import GroupError
from rocketeer.group.etcd_program import find_etcd


@pytest.fixture(autouse=True)
def _needs_etcd() -> None:
    try:
        find_etcd()
    except GroupError as error:
        pytest.skip(str(error))
