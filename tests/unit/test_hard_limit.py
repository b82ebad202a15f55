"""No test stands still for ever: see support/hard_limit.py."""

import os
import subprocess
import sys
from pathlib import Path

STANDS_STILL = """
import time

def test_that_takes_no_exception_for_an_answer():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
"""


def test_a_test_that_swallows_its_timeout_is_ended_with_its_stack(tmp_path: Path) -> None:
    (tmp_path / "test_still.py").write_text(STANDS_STILL)
    words = [
        "--disable-plugin-autoload",
        "-p",
        "support.hard_limit",
        "-p",
        "pytest_timeout",
        "-o",
        "timeout=1",
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TEST_MARGIN_S": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert run.returncode == 1
    assert "test_that_takes_no_exception_for_an_answer" in run.stderr, run
