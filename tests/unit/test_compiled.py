"""One switch decides between compiled modules and their plain twins, for all of them at once."""

import os
import re
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

import pytest

import rocketeer
from rocketeer import compiled

HOME = Path(rocketeer.__file__).parent
TESTS = Path(__file__).parents[1]
LOADED = """
import sys, rocketeer.aio, rocketeer.broker.assemble, rocketeer.record.columns, rocketeer.record.walk
import rocketeer.spark.sink.plain_rows, rocketeer.store.message_store
from rocketeer.compiled import COMPILED
suffixes = tuple(__import__("importlib.machinery").machinery.EXTENSION_SUFFIXES)
ours = sorted(
    name for name, module in sys.modules.items()
    if name.startswith("rocketeer.") and (getattr(module, "__file__", None) or "").endswith(suffixes)
)
print(COMPILED, *ours)
"""


def loaded(plain: str) -> tuple[str, set[str]]:
    told = subprocess.run(
        [sys.executable, "-c", LOADED],
        env={**os.environ, "ROCKETEER_PLAIN": plain},
        capture_output=True,
        text=True,
        check=True,
    )
    chosen, *names = told.stdout.split()
    return chosen, set(names)


def built() -> set[str]:
    """Every source of a compiled module that has been built; what was built of old sources does not count."""
    sources = [path for path in HOME.rglob("_*.pyx") if path.parent.name != "bench"]
    modules = {
        ".".join(("rocketeer", *path.relative_to(HOME).with_suffix("").parts))
        for path in sources
        if any(path.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)
    }
    return modules | {"rocketeer._cyutility"} if modules else modules  # what Cython's memoryviews share


def test_plain_means_that_no_compiled_module_is_loaded() -> None:
    assert loaded("1") == ("False", set())


def test_compiled_means_all_of_them() -> None:
    if not built():
        pytest.skip("installed without a C compiler")
    assert loaded("") == ("True", built())


def test_the_tests_run_what_they_were_told_to() -> None:
    assert (os.environ.get("ROCKETEER_PLAIN", "") in ("", "0") and bool(built())) == compiled.COMPILED


class Pair(NamedTuple):
    """A row of the table in `compiled.py`."""

    compiled: list[Path]
    """A folder where all its modules have one stand-in."""
    stand_in: Path | None
    tests: list[Path]


def pairs() -> list[Pair]:
    assert compiled.__doc__ is not None
    rows = re.findall(r"^\| (`.+) \| (.+) \| (.+) \|$", compiled.__doc__, re.MULTILINE)
    return [pair(*row) for row in rows]


def pair(modules: str, without: str, tests: str) -> Pair:
    made = among(HOME, modules, ".pyx")
    stand_in = re.match(r"`(\w+)`", without)
    return Pair(made, stand_in and made[0].with_name(f"{stand_in[1]}.py"), among(TESTS, tests, ".py"))


def among(root: Path, cell: str, suffix: str) -> list[Path]:
    """The paths that a cell names; those behind the first stand in the same folder."""
    first, *others = re.findall(r"`(.+?)`", cell)
    if first.endswith("/"):
        return [root / first]
    path = root / (first + suffix)
    return [path, *(path.with_name(other + suffix) for other in others)]


def test_what_stands_in_for_each_compiled_module_is_said() -> None:
    said = [path for each in pairs() for path in each.compiled]
    assert all(path.exists() for path in said)
    assert len(said) == len(set(said))
    assert {path for path in HOME.rglob("_*.pyx") if path.parent not in said} == set(said) - {HOME / "engine"}
    twins = {each.stand_in for each in pairs()}
    assert twins >= set(HOME.rglob("*_plain.py"))


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair.compiled[0].stem)
def test_whoever_holds_the_two_together_names_the_one_that_stands_in(pair: Pair) -> None:
    assert pair.tests
    for path in pair.tests:
        assert path.exists()
        if pair.stand_in is not None:
            assert pair.stand_in.exists()
            assert re.search(rf"\b{pair.stand_in.stem}\b", path.read_text())
