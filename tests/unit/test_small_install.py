"""`pip install rocketeer` alone: the clients work, and whatever needs an extra names it in one sentence."""

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rocketeer.testing import cluster

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES_MAX = 15
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WITHOUT_EXTRAS = """
import sys

class Missing:
    # As in an environment where only the dependencies that are no extra's are installed.
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in {"numpy", "rich", "typer", "click", "uvloop", "pydantic", "lz4", "zstandard", "yaml",
                   "prometheus_client", "pyarrow", "pyspark"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
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


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EXTRAS + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_clients_need_no_extra() -> None:
    with cluster() as running:
        ran = python(USE, running.nameserver)
    assert ran.stdout.strip() == str([1] * 10 + [5000]), ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import runpy; runpy.run_module('rocketeer', run_name='__main__')", "pip install 'rocketeer[cli]'"),
        ("import rocketeer.testing", "pip install 'rocketeer[server]'"),
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


def test_the_small_install_is_small() -> None:
    files = [file for name in PROJECT["dependencies"] for file in importlib.metadata.files(name) or []]
    size = sum(path.stat().st_size for file in files if (path := Path(str(file.locate()))).exists())
    package = ROOT / "src" / "rocketeer"
    parts = [path for path in package.rglob("*") if path.suffix in (".py", ".so", ".tsv") and path.is_file()]
    size += sum(path.stat().st_size for path in parts if "bench" not in path.parts)
    assert size < MEGABYTES_MAX << 20, f"{size >> 20} MB"
