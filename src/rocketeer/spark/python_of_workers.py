"""Which Python Spark's workers run: this one, which has the package, and not whatever `python3` is on the PATH."""

import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketeer.errors import RocketeerError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

WORKERS_PYTHON: Final = "PYSPARK_PYTHON"
_SPARKS_DEFAULT: Final = "python3"


class WrongPython(RocketeerError):
    """The workers of a session run a Python that does not have this package."""


def choose_python() -> None:
    """On import: sessions made from now on use this Python, unless somebody chose one.

    A session that is there already has chosen: a warning says what to do. What spark-submit started is left alone:
    its workers may be on machines where this Python is not.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    context = _running_context()
    if context is None:
        os.environ.setdefault(WORKERS_PYTHON, sys.executable)
    elif not _has_package(context.pythonExec):
        warnings.warn(_sentence(context.pythonExec), stacklevel=3)


def fit_python(spark: "SparkSession") -> None:
    """On `register`: workers on this machine use this Python for what is registered now; WrongPython elsewhere."""
    context: SparkContext | None = getattr(
        spark, "_sc", None
    )  # Spark Connect has none: the server's Python counts
    if context is None or _has_package(context.pythonExec):
        return
    if not str(context.master).startswith("local"):
        if context.pythonExec == _SPARKS_DEFAULT:
            return  # another machine's python3: nobody here can tell what it has
        raise WrongPython(_sentence(context.pythonExec))
    context.pythonExec = sys.executable


def _running_context() -> "SparkContext | None":
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _has_package(python: str) -> bool:
    """Whether it is this Python, under whatever name; another one would have to be started to be asked."""
    found = shutil.which(python)
    # Not resolved: an environment's python is a link to the one it was made from, which has other packages.
    return found is not None and Path(found).absolute() == Path(sys.executable).absolute()


def _sentence(python: str) -> str:
    return (
        f"Spark's workers run {python!r}, not {sys.executable}, so they may not find rocketeer: call "
        f"rocketeer.spark.register(spark), or import rocketeer.spark (or set {WORKERS_PYTHON}={sys.executable}) "
        "before the session is made"
    )
