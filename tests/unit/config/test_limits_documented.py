"""docs/limits.md names every limit with its default, and no other."""

import dataclasses
import re
from pathlib import Path

from rocketeer.config import BrokerLimits, NamesrvLimits, ServerLimits

PAGE = Path(__file__).parents[3] / "docs" / "limits.md"


def test_every_limit_is_documented_with_its_default() -> None:
    told = dict(re.findall(r"^\| `(limit\w+)` \| (\d+) \|", PAGE.read_text(), re.MULTILINE))
    limits = [
        item for kind in (ServerLimits, BrokerLimits, NamesrvLimits) for item in dataclasses.fields(kind)
    ]
    assert told == {item.metadata["java"]: str(item.default) for item in limits}
