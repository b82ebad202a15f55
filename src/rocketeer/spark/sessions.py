"""Starting a Spark session that has the source, or adding it to one that runs."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from rocketeer.record.java_hash import java_hash
from rocketeer.spark.class_data.use import class_data
from rocketeer.spark.datasource import RocketmqDataSource
from rocketeer.spark.java import use_java
from rocketeer.spark.private_folders import make_private
from rocketeer.spark.python_of_workers import fit_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL: Final = {
    # One rename less per checkpoint file: a micro-batch takes some 100 ms less on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_JAVA_SESSION: Final = "org.apache.spark.sql.classic.SparkSession"


def session(
    name: str = "rocketeer", *, master: str | None = None, config: Mapping[str, object] | None = None
) -> "SparkSession":
    """A session with the source registered; `master` is `local[*]` unless given here or by spark-submit.

    Finds a Java by itself, the one from PyPI if the machine has none. Executors use this Python.
    """
    from pyspark.sql import SparkSession

    java = use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = master or os.environ.get("SPARK_MASTER") or _submitted_master() or "local[*]"
    if chosen.startswith("local") and "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(lean_home(Path(pyspark.__file__).parent))
    builder = SparkSession.builder.appName(name).master(chosen)
    if chosen.startswith("local"):
        for key, value in _LOCAL.items():
            builder = builder.config(key, value)
    for key, given in (config or {}).items():
        builder = builder.config(key, str(given))
    with class_data(java, config or {}):
        spark = builder.getOrCreate()
    register(spark)
    return spark


def register(spark: "SparkSession") -> "SparkSession":
    """Add the format `rocketmq` to a session, also one of Spark Connect. WrongPython if its workers cannot run it.

    The session becomes the active one of the calling thread: that is where Spark looks for a format to write to, and
    threads that Python starts have none.
    """
    fit_python(spark)
    spark.dataSource.register(RocketmqDataSource)
    java = getattr(spark, "_jvm", None)  # Spark Connect has none here
    if java is not None:
        getattr(java, _JAVA_SESSION).setActiveSession(spark._jsparkSession)
    return spark


def lean_home(package: Path) -> Path:
    """The installed Spark without its zipped copy of PySpark: links in the temporary folder, made once per user.

    Python processes that Spark starts would import PySpark from that zip, which Python must compile anew each time:
    1.3 s of CPU for each of the two or three that plan a read, instead of 0.4 s from the installed package.
    """
    home = Path(tempfile.gettempdir()) / f"rocketeer-spark-{os.getuid()}-{abs(java_hash(str(package))):x}"
    if not make_private(home):
        return package  # somebody else's folder of that name could have any jars in it
    for part in package.iterdir():
        link = home / part.name
        if part.name in ("bin", "jars", "sbin", "data", "licenses") and not link.is_symlink():
            with contextlib.suppress(FileExistsError):  # another process was quicker
                link.symlink_to(part)
    return home


def _submitted_master() -> str | None:
    """What spark-submit was told; it hands it on in the arguments for the JVM."""
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "").split()
    return arguments[arguments.index("--master") + 1] if "--master" in arguments[:-1] else None
