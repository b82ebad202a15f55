"""Which PySpark is here is said at import: too old, too new to have been tried, or what it lacks."""

import subprocess
import sys

import pyspark
import pytest

from rocketeer.spark.versions import check_version


def test_one_that_is_too_old_is_refused_with_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.2")
    with pytest.raises(ImportError, match=r"PySpark 4\.0\.2 is too old: rocketeer\.spark needs 4\.1 to 4\.3"):
        check_version()


def test_one_that_nobody_tried_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.12.0")
    with pytest.warns(UserWarning, match=r"PySpark 4\.12\.0 is newer than .* \(4\.3\)"):
        check_version()


IMPORTED = """
import warnings
import pyspark
pyspark.__version__ = "4.1.4"
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import rocketeer.spark
print(*[each.message for each in found], sep="\\n")
try:
    rocketeer.spark.read_stream(None, "Orders", nameserver="127.0.0.1:1")
except rocketeer.errors.ConfigError as error:
    print("refused:", error)
"""


def test_what_4_1_lacks_is_said_at_import_and_by_who_misses_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.returncode == 0, ran.stderr
    said, refused = ran.stdout.splitlines()
    assert said.startswith("PySpark 4.1.4 cannot read topics as a stream: ")
    assert said.endswith("; batches and writing work")
    assert refused.startswith("refused: PySpark 4.1.4 cannot read topics as a stream: ")
