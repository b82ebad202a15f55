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
        ("store/_x.pyx", "\ndef f(): from rocketeer.broker import send\n"),
        ("store/_x.pyx", "import numpy\nimport numpy; import rocketeer.broker.send\n"),
        ("store/_x.pyx", '\nsend = importlib.import_module("rocketeer.broker.send")\n'),
        ("store/_x.pyx", "\nsend = __import__('rocketeer.broker.send')\n"),
        ("record/_x.pyx", 'cdef extern from *: """\n#include <sys/epoll.h>\n"""\n'),
        ("record/_x.h", '/* what it is */\n#include "unistd.h"\n'),
        ("record/_x.h", "#include <stdint.h>\n#  include <time.h>\n"),
        (
            "record/_x.pyx",
            "cdef extern from *:\n    ssize_t pwrite(int fd, const void *data, size_t size, long at)\n",
        ),
        ("filter/_x.pxd", 'cdef extern from * nogil:\n    void nap "usleep"(unsigned int us) noexcept\n'),
        (
            "protocol/_x.pyx",
            'cdef extern from "Python.h":\n    int PyObject_Print(object what, void *file, int flags)\n',
        ),
        (
            "protocol/_x.pyx",
            'cdef extern from "<sys/mman.h>":\n    int madvise(void *at, size_t size, int advice)\n',
        ),
        ("record/_x.pyx", "\ncdef extern int usleep(unsigned int us)\n"),
        (
            "record/_x.pyx",
            'cdef extern from *:  # what C says below\n    """\n    int usleep(unsigned us);\n    """\n',
        ),
        ("record/_x.h", "static int twice(int x) { return 2 * x; }\nextern int usleep(unsigned us);\n"),
        ("record/_x.pyx", "\nfrom libc.stdlib cimport free, system\n"),
        ("record/_x.pyx", "\ncimport libc.stdlib\n"),
        ("model/_x.pyx", "\nfrom libc cimport stdlib\n"),
        ("filter/_x.pyx", "cdef f():\n    print('here')\n"),
        ("record/_x.pyx", "def f(path):\n    with open(path) as file: return file.read()\n"),
        ("model/x.py", "def f(path):\n    return open(path).read()\n"),
        ("protocol/x.py", '"""print(1)"""\nprint(1)\n'),
    ],
)
def test_a_breach_is_named_by_file_and_line(tmp_path: Path, name: str, text: str) -> None:
    code, lines = check(tree(tmp_path, name, text))
    assert code == 1
    assert len(lines) == 1, lines
    at = 3 if "below" in text else 2
    assert lines[0].startswith(f"{tmp_path / 'src' / 'rocketeer' / name}:{at}: ")


@pytest.mark.parametrize("line", ['cdef extern from "_h.h":', 'cdef extern from "<_h.h>":'])
def test_a_header_that_lies_in_another_folder_is_that_rooms(tmp_path: Path, line: str) -> None:
    root = tree(tmp_path, "security/_h.h", "#include <stdint.h>\n")
    user = root / "src" / "rocketeer" / "record" / "_x.pyx"
    user.parent.mkdir()
    user.write_text(f"\n{line}\n    pass\n")
    assert check(root) == (1, [f"{user}:2: record imports rocketeer.security._h, which is above it"])


@pytest.mark.parametrize(
    "line", ["from rocketeer.broker._x import X", "from rocketeer.broker import _x", "import rocketeer.broker._x",
             "from ..broker import _x", "from ..broker._x import X", "import_module('rocketeer.broker._x')"]
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
        ("record/_x.pyx", "from libc.string cimport memcpy\nfrom libc.stdlib cimport free\n"),
        (
            "record/_x.pyx",
            'cdef extern from *:\n    void p "__builtin_prefetch"(const void *at)\n\ncdef int f(): return 1\n',
        ),
        (
            "record/_x.pyx",
            '"""It would print("x")."""\n# open(path)\ncdef f(file): file.open("x"); reopen(1)\n',
        ),
        (
            "store/_x.pyx",
            'cdef extern from "<sys/mman.h>":\n    int mlock(void *at, size_t size)\nprint(open("x"))\n',
        ),
        ("record/_x.h", "static int f(int x) {\n    return g(x);\n}\n"),
        (
            "protocol/_frames.pyx",
            'cdef extern from "<sys/mman.h>":\n    int madvise(void *at, size_t size, int how)\n',
        ),
        ("store/_x.pyx", "from .. import record\nfrom . import _index\nfrom ._index cimport x\n"),
        ("broker/_x.pyx", "from rocketeer.engine.sends import SendBuffer\n"),
        ("spark/_x.pyx", "import pyspark\n"),
    ],
)
def test_what_points_downwards_is_fine(tmp_path: Path, name: str, text: str) -> None:
    assert check(tree(tmp_path, name, text)) == (0, [])
