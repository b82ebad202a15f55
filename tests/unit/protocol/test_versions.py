"""Version numbers are the places of the names in RocketMQ's list."""

import pytest

from rocketeer.protocol.codes import VERSION
from rocketeer.protocol.versions import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, version_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "V3_0_0_SNAPSHOT"), (15, "V3_0_0_FINAL"), (V3_0_7_SNAPSHOT, "V3_0_7_SNAPSHOT"), (45, "V3_0_15"),
        (V3_1_8_SNAPSHOT, "V3_1_8_SNAPSHOT"), (VERSION, "V4_9_8"), (410, "V4_9_9_SNAPSHOT"), (411, "V4_9_9"),
        (412, "V5_0_0_SNAPSHOT"), (611, "V5_9_9"), (612, "HIGHER_VERSION"), (10_000, "HIGHER_VERSION"),
    ],
)  # fmt: skip
def test_every_number_has_its_name(number: int, name: str) -> None:
    assert version_name(number) == name
