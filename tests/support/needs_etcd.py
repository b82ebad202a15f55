"""Skips a test of groups where no etcd is installed, and says what to install."""

import pytest

from rocketeer.errors import GroupError
from rocketeer.group.etcd_program import find_etcd


def needs_etcd() -> None:
    try:
        find_etcd()
    except GroupError as error:
        pytest.skip(str(error))
