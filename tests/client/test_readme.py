"""What README shows of the Python clients runs as it stands; only the address is the test's own."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.cluster import ServerCluster

pytestmark = pytest.mark.own_cluster

README = Path(__file__).parents[2] / "README.md"
BLOCKS = [
    block
    for block in re.findall(r"^```python\n(.+?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    if re.search(r"^from rocketeer(\.aio|\.testing)? import ", block, re.MULTILINE)
]
TIMEOUT_S = 60


def test_there_is_something_to_run() -> None:
    assert any("consumer.run()" in block for block in BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[0])
def test_the_block_runs(cluster: ServerCluster, tmp_path: Path, block: str) -> None:
    script = tmp_path / "readme.py"
    script.write_text(block.replace("127.0.0.1:9876", cluster.namesrv))
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-u", str(script)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "error::ResourceWarning"},
        )
    try:
        if "consumer.run()" in block:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("billed"):
                    break
            process.send_signal(signal.SIGINT)  # Ctrl-C
            assert "SEND_OK" in said[0]
            assert said[-1] == "billed ['42'] b'...'\n"
        process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, (tmp_path / "errors").read_text()) == (0, "")
    finally:
        process.kill()
        process.wait()
