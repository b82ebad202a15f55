"""Compiled sources obey the same layers as Python ones; the check names file and line of a breach."""

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
TOOL = REPO / "tools" / "check_compiled_imports.py"


def check(root: Path) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, str(TOOL), str(root)], capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def tree(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / "pyproject.toml").write_text((REPO / "pyproject.toml").read_text())
    path = tmp_path / "src" / "rocketeer" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return tmp_path


def test_ours_are_in_order() -> None:
    assert check(REPO) == (0, [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("record/_x.pyx", "\nfrom rocketeer.store._queue_entries cimport QueueTail\n"),
        (
            "store/_x.pyx",
            '"""from rocketeer.broker import x"""\nfrom rocketeer.engine.sends import SendBuffer\n',
        ),
        ("store/_x.pyx", "# a comment\nimport rocketeer.broker.send\n"),
        ("store/_x.pyx", "\nfrom rocketeer.protocol cimport _frames\n"),
        ("store/_x.pyx", "\nfrom rocketeer cimport broker\n"),
        ("store/_x.pyx", "\ncimport rocketeer.remoting._stream as stream\n"),
        ("record/_x.pxd", "\nfrom rocketeer.engine._send cimport (\n    Send,\n)\n"),
        ("record/_x.pxi", '\ninclude "../store/_x.pxi"\n'),
        ("record/_x.pyx", '\ncdef extern from "../store/x.h":\n    pass\n'),
        ("record/_x.pyx", "\nfrom posix.unistd cimport close\n"),
        ("protocol/_x.pyx", "\nimport time\n"),
    ],
)
def test_a_breach_is_named_by_file_and_line(tmp_path: Path, name: str, text: str) -> None:
    code, lines = check(tree(tmp_path, name, text))
    assert code == 1
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{tmp_path / 'src' / 'rocketeer' / name}:2: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "engine/_x.pyx",
            "from rocketeer.store._queue_entries cimport QueueTail\nfrom posix.unistd cimport close\n",
        ),
        (
            "record/_x.pyx",
            "from rocketeer.record._bytes cimport (\n    get32,  # from rocketeer.broker import x\n)\n",
        ),
        ("store/_x.pyx", "from libc.string cimport memcpy\nimport numpy\n"),
    ],
)
def test_what_points_downwards_is_fine(tmp_path: Path, name: str, text: str) -> None:
    assert check(tree(tmp_path, name, text)) == (0, [])
