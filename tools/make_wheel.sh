#!/bin/sh
# Builds a wheel with the compiled modules into dist/, named for the systems it runs on, and proves that it is whole:
# a clean environment that can find no compiler installs it, and it runs compiled there. $1 is the environment to build with.
set -eu
venv=$PWD/$1

rm -rf build/lib build/lib.* build/bdist.* dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation -w "$work/built" .
# Only what glibc has since a named version is used: auditwheel finds which, and says so in the file's name.
PATH=$venv/bin:$PATH "$venv/bin/auditwheel" repair --strip -w dist "$work"/built/*.whl

"$venv/bin/python" -m venv "$work/clean"
clean=$work/clean/bin/python
"$clean" -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements.lock
CC=false CXX=false "$clean" -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation dist/*.whl
cd "$work"
"$clean" - <<'END'
import pathlib
import rocketeer
from rocketeer.compiled import COMPILED

home = pathlib.Path(rocketeer.__file__).parent
assert home.parent.name == "site-packages", home
assert COMPILED, "the wheel's compiled modules were not found"
assert not (home / "bench").exists(), "the benchmark runs from a checkout, it is no part of the wheel"
assert not (home / "spark" / "bench").exists(), "neither are the benchmarks of Spark"
print(f"{len(list(home.rglob('_*.so')))} compiled modules load from the installed wheel")
END
cd - >/dev/null

# `pip install rocketeer` alone, in an empty environment: what a user of the clients gets.
"$venv/bin/python" -m venv "$work/small"
env -i PATH=/usr/bin:/bin HOME="$work" "$work/small/bin/python" -m pip --disable-pip-version-check install --quiet dist/*.whl
ROCKETEER_SMALL_PYTHON=$work/small/bin/python "$venv/bin/pytest" tests/unit/test_small_install.py
ls dist
