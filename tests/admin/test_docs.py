"""What docs/admin.md shows runs as it stands; only the address is the test's own."""

import asyncio
import re
from pathlib import Path
from textwrap import indent

import pytest

from rocketeer import Admin
from support.two_brokers import TwoBrokers

PAGE = (Path(__file__).parents[2] / "docs" / "admin.md").read_text()
BLOCKS = re.findall(r"^```python\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_block_is_run_here() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[0])
def test_the_block_runs(block: str, pair: TwoBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    text = block.replace("127.0.0.1:9876", pair.namesrv)
    if "async with" in text:
        names: dict[str, object] = {}
        exec("async def main():\n" + indent(text, "    "), names)
        asyncio.run(names["main"]())  # type: ignore[operator]
    else:
        with Admin(pair.namesrv) as admin:
            exec(text, {"admin": admin})
    assert "did not answer" not in capsys.readouterr().out
