"""`pip install rocketeer` alone: the clients work, and whatever needs an extra names it in one sentence.

Here the libraries of all extras are hidden; `make wheel` runs the same in an environment that has the wheel and nothing
else (ROCKETEER_SMALL_PYTHON).
"""

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from rocketeer.testing import cluster

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES_MAX = 15
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SMALL = os.environ.get("ROCKETEER_SMALL_PYTHON")
EXTRAS = {
    "numpy", "rich", "typer", "click", "uvloop", "pydantic", "lz4", "zstandard", "yaml", "prometheus_client", "pyarrow",
    "pyspark", "opentelemetry", "fastavro", "starlette",
}  # fmt: skip
CLI = {"typer", "rich", "click", "yaml", "pydantic"}
HIDING = """
import sys

for name in HIDDEN:
    sys.modules[name] = None  # its import fails, as in an environment that lacks it
"""
USE = """
import asyncio
import rocketeer
import rocketeer.aio as aio
from rocketeer import Message

nameserver = sys.argv[1]
for name in dir(rocketeer):
    getattr(rocketeer, name)
with rocketeer.Producer("P", nameserver=nameserver) as producer:
    producer.send(Message("Small", b"x" * 5000))

async def main():
    async with aio.Producer("P", nameserver=nameserver) as producer:
        await asyncio.gather(*(producer.send(Message("Small", b"y")) for _ in range(10)))
    got = asyncio.Queue()
    consumer = aio.PushConsumer(
        "G", nameserver=nameserver, consume_from=aio.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe("Small", got.put)
    async with consumer:
        print(sorted([len((await got.get()).body) for _ in range(11)]))

asyncio.run(main())
"""


def python(
    code: str,
    *arguments: str,
    hidden: Iterable[str] = () if SMALL else EXTRAS,
    program: str = SMALL or sys.executable,
) -> subprocess.CompletedProcess[str]:
    hiding = f"HIDDEN = {set(hidden)}\n" + HIDING
    command = [program, "-c", hiding + code, *arguments]
    # Nothing of the caller's: no PYTHONPATH, no NAMESRV_ADDR.
    clean = {"PATH": os.environ["PATH"]}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=clean)


def test_the_clients_need_no_extra() -> None:
    with cluster() as running:
        ran = python(USE, running.nameserver)
    assert ran.stdout.strip() == str([1] * 10 + [5000]), ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import runpy; runpy.run_module('rocketeer', run_name='__main__')", "pip install 'rocketeer[cli]'"),
        ("import rocketeer.testing", "pip install 'rocketeer[server]'"),
        ("import rocketeer.spark", "pip install 'rocketeer[spark]'"),
        ("import rocketeer.middlewares as m; m.Prometheus()", "pip install 'rocketeer[prometheus]'"),
        ("import rocketeer.middlewares as m; m.OpenTelemetry()", "pip install 'rocketeer[otel]'"),
        ("import rocketeer; rocketeer.AvroCodec({})", "pip install 'rocketeer[avro]'"),
        (
            "from rocketeer.record.compression import decompress\nfrom rocketeer.record.flags import COMPRESSED, Compression\ndecompress(b'x', COMPRESSED | Compression.ZSTD)",
            "a body packed with zstandard needs zstandard: pip install 'rocketeer[compression]'",
        ),
    ],
)
def test_what_needs_an_extra_names_it(code: str, sentence: str) -> None:
    ran = python(code)
    assert ran.returncode == 1
    assert sentence in ran.stderr, ran.stderr


RUN = "import runpy, sys; sys.argv[0] = 'rocketeer'; runpy.run_module('rocketeer', run_name='__main__')"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("up", "rocketeer: the command rocketeer up needs numpy: pip install 'rocketeer[server]'"),
        ("audit", "rocketeer: the command rocketeer audit needs numpy: pip install 'rocketeer[server]'"),
        ("console", "rocketeer: the console needs more packages: pip install 'rocketeer[console]'"),
    ],
)
def test_commands_name_the_extra_they_need_beside_cli(command: str, sentence: str, tmp_path: Path) -> None:
    there = [str(tmp_path)] if command == "audit" else []
    ran = python(RUN, command, *there, hidden=EXTRAS - CLI, program=sys.executable)
    assert (ran.returncode, ran.stderr.strip()) == (1, sentence)


def test_what_a_users_own_module_lacks_is_not_an_extras_matter(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import numpy\n")
    code = f"import os; os.chdir({str(tmp_path)!r}); sys.path.insert(0, '')\n" + RUN
    ran = python(code, "run", "shop:app", hidden={"numpy"}, program=sys.executable)
    assert ran.returncode != 0
    assert "ModuleNotFoundError" in ran.stderr
    assert "rocketeer[server]" not in ran.stderr


@pytest.mark.parametrize("text", ["import rocketeer_shop", "import wanting"])
def test_neither_is_what_a_module_lacks_that_is_named_like_ours_or_that_it_imports(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(f"{text}\n")
    (tmp_path / "rocketeer_shop.py").write_text("import numpy\n")
    (tmp_path / "wanting.py").write_text("import numpy\n")
    code = f"import os; os.chdir({str(tmp_path)!r}); sys.path.insert(0, '')\n" + RUN
    ran = python(code, "run", "shop:app", hidden={"numpy"}, program=sys.executable)
    assert "rocketeer[server]" not in ran.stderr
    assert 'shop.py", line 1' in ran.stderr, "where it was wanted"


def test_neither_is_what_a_startup_hook_lacks(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from rocketeer import App\n"
        "app = App(nameserver='127.0.0.1:1')\n"
        "@app.listener('T', group='G')\n"
        "def bill(message): ...\n"
        "@app.on_startup\n"
        "def load(): import numpy\n"
    )
    code = f"import os; os.chdir({str(tmp_path)!r}); sys.path.insert(0, '')\n" + RUN
    ran = python(code, "run", "shop:app", hidden={"numpy"}, program=sys.executable)
    assert "UsersImportFailed" in ran.stderr, ran.stderr
    assert "in load" in ran.stderr


def test_nothing_else_comes_along() -> None:
    listed = python(
        "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))", hidden=()
    ).stdout.split()
    if SMALL:
        assert set(listed) - {"pip", "setuptools"} == {"isal", "msgspec", "rocketeer"}
    for name in PROJECT["dependencies"]:
        assert name in listed
        needs = [each for each in importlib.metadata.requires(name) or [] if "extra ==" not in each]
        assert not needs, f"{name} brings {needs}"


def test_the_small_install_is_small() -> None:
    if SMALL:
        sizes = "sum(os.path.getsize(p) for d in ('rocketeer', 'isal', 'msgspec') for f in m.files(d) if os.path.exists(p := f.locate()))"
        ran = python(f"import importlib.metadata as m, os; print({sizes})", hidden=())
        assert 2 << 20 < int(ran.stdout) < MEGABYTES_MAX << 20, ran.stdout + ran.stderr
    files = [file for name in PROJECT["dependencies"] for file in importlib.metadata.files(name) or []]
    size = sum(path.stat().st_size for file in files if (path := Path(str(file.locate()))).exists())
    package = ROOT / "src" / "rocketeer"
    parts = [path for path in package.rglob("*") if path.suffix in (".py", ".so", ".tsv") and path.is_file()]
    size += sum(path.stat().st_size for path in parts if "bench" not in path.parts)
    assert size < MEGABYTES_MAX << 20, f"{size >> 20} MB"
