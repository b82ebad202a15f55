"""The nemesis, for two minutes: every promise holds through faults of every sort (`make faults` runs all of them).

Two groups are struck side by side, a minute each: what they do is mostly waiting.
"""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
END_S = 1000.0
"""A minute of faults; the rest is for a busy machine, and for a group that has to come to rest."""

SHARES = {
    ("--seed", "16", "--flush", "ASYNC_FLUSH"): (
        "kill the leader",
        "cut the leader off from everybody but clients",
        "set all clocks",
        "pause the leader",
        "kill etcd",
        "fill the leader's disk",
        "cut a follower off from everybody",
        "kill everything at once",
        "fail a follower's syncs",
        "slow the leader's syncs",
        "switch the leader",
        "kill the name server",
    ),
    ("--seed", "17", "--flush", "SYNC_FLUSH"): (
        "stop the leader",
        "cut everybody off from etcd",
        "set the leader's clock",
        "pause a follower",
        "nothing gets from the leader to a follower",
        "kill the leader twice",
        "fill a follower's disk",
        "fail the leader's syncs",
        "cut clients off from everybody",
        "empty a follower's store",
        "kill two members",
        "cut the leader off from its followers",
    ),
}
SHORT = ("--minutes", "1", "--slower", "2", "--steady", "--lasts", "0.5", "2", "4", "--pauses", "0.5", "1.5")


class Share:
    """One group and its minute, as `make faults` would run it."""

    def __init__(self, folder: Path, options: tuple[str, ...], faults: tuple[str, ...]) -> None:
        self._words = ("-m", "faults", *options, *SHORT, "--faults", *faults)
        self._output = folder / f"seed{options[1]}.out"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *self._words, "--folder", str(folder / f"seed{options[1]}")],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(REPO / "tests")},
            )

    def has_passed(self, give_up_s: float) -> bool:
        try:
            return self.process.wait(max(0.0, give_up_s - time.monotonic())) == 0
        except subprocess.TimeoutExpired:
            return False

    def report(self) -> str:
        """What it said last, and how to have it once more."""
        return (
            f"{self._output.read_text(errors='replace')[-6000:]}\n"
            f"again: PYTHONPATH=tests .venv/bin/python {shlex.join(self._words)}"
        )

    def end(self) -> None:
        """With its servers, networks and disks."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@pytest.mark.timeout(END_S + 200)
def test_nothing_promised_is_lost_whatever_fails(tmp_path: Path) -> None:
    shares: list[Share] = []
    give_up_s = time.monotonic() + END_S
    try:
        for options, faults in SHARES.items():
            shares.append(Share(tmp_path, options, faults))
        failed = [share for share in shares if not share.has_passed(give_up_s)]
        assert not failed, "\n\n".join(share.report() for share in failed)
    finally:
        for share in shares:
            share.end()
