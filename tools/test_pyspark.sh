#!/bin/sh
# test_pyspark.sh VENV VERSION [pytest options]: source and sink with another PySpark.
# Its environment has PySpark and py4j of its own; everything else comes from VENV.
set -eu
venv=$1 version=$2
shift 2
own=build/pyspark-$version
if [ ! -e "$own/ready" ]; then
  "$venv/bin/python" -m venv "$own"
  "$own/bin/python" -m pip --disable-pip-version-check install --quiet "pyspark==$version"
  # A path file of the other environment also names the checkout, which is installed there in place.
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  target=$("$own/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "import site; site.addsitedir('$site')" > "$target/shared.pth"
  touch "$own/ready"
fi
case $version in
  4.1.*) tests="tests/spark/test_batch.py tests/spark/test_sink.py" ;;
  *) tests="tests/spark/test_batch.py tests/spark/test_stream.py tests/spark/test_prefetch.py tests/spark/test_sink.py tests/spark/jobs/test_archive.py" ;;
esac
PYTHONPATH= exec "$own/bin/python" -m pytest $tests "$@"
