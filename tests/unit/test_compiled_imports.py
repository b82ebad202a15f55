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
        ("record/_x.pyx", '\ncdef extern from "<sys/epoll.h>" nogil:\n    pass\n'),
        ("filter/_x.pyx", '\ncdef extern from "<time.h>":\n    pass\n'),
        ("protocol/_x.pyx", '\ncdef extern from "fcntl.h":\n    pass\n'),
        ("store/_x.pyx", "\nfrom .. import broker\n"),
        ("store/_x.pyx", "\nfrom ..broker import send\n"),
        ("store/_x.pyx", "\nfrom ..broker.send cimport x\n"),
        ("store/_x.pyx", "\nimport pyspark\n"),
        ("broker/_x.pyx", "\nfrom rocketeer.engine._send_buffer cimport SendBuffer\n"),
        ("broker/_x.pyx", "\nfrom rocketeer.engine cimport _send_buffer\n"),
        ("protocol/_x.pyx", "\nimport time\n"),
    ],
)
def test_a_breach_is_named_by_file_and_line(tmp_path: Path, name: str, text: str) -> None:
    code, lines = check(tree(tmp_path, name, text))
    assert code == 1
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{tmp_path / 'src' / 'rocketeer' / name}:2: ")


@pytest.mark.parametrize(
    "line", ["from rocketeer.broker._x import X", "from rocketeer.broker import _x", "import rocketeer.broker._x",
             "from ..broker import _x", "from ..broker._x import X"]
)  # fmt: skip
def test_a_compiled_module_that_a_python_one_imports_counts_as_well(tmp_path: Path, line: str) -> None:
    root = tree(tmp_path, "broker/_x.pyx", "")
    user = root / "src" / "rocketeer" / "store" / "x.py"
    user.parent.mkdir()
    user.write_text(f"import rocketeer\nif True:\n    {line}\n")
    assert check(root) == (1, [f"{user}:3: store imports rocketeer.broker._x, which is above it"])


def test_of_the_engine_others_import_one_module(tmp_path: Path) -> None:
    root = tree(tmp_path, "engine/_send_buffer.pyx", "")
    user = root / "src" / "rocketeer" / "broker" / "x.py"
    user.parent.mkdir()
    user.write_text("from rocketeer.engine.sends import SendBuffer\n")
    assert check(root) == (0, [])
    user.write_text("from rocketeer.engine._send_buffer import SendBuffer\n")
    said = "broker imports rocketeer.engine._send_buffer, of engine others import rocketeer.engine.sends only"
    assert check(root) == (1, [f"{user}:1: {said}"])


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
        ("store/_x.pyx", "from .. import record\nfrom . import _index\nfrom ._index cimport x\n"),
        ("broker/_x.pyx", "from rocketeer.engine.sends import SendBuffer\n"),
        ("spark/_x.pyx", "import pyspark\n"),
    ],
)
def test_what_points_downwards_is_fine(tmp_path: Path, name: str, text: str) -> None:
    assert check(tree(tmp_path, name, text)) == (0, [])
