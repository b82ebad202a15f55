"""One switch decides between compiled modules and their plain twins, for all of them at once."""

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import rocketeer
from rocketeer import compiled

HOME = Path(rocketeer.__file__).parent
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


def test_what_stands_in_for_each_compiled_module_is_said() -> None:
    for path in HOME.rglob("_*.pyx"):
        twin = path.with_name(f"{path.stem.removeprefix('_')}_plain.py")
        name = path.relative_to(HOME).with_suffix("").as_posix()
        assert compiled.__doc__ is not None
        assert twin.exists() or f"`{name}`" in compiled.__doc__ or name.startswith("engine/"), name
