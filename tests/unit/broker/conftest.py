"""What tests of the broker's parts share: `rig`, transactions on a store of their own."""

from pathlib import Path

import pytest

from support.transactions import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "store")
