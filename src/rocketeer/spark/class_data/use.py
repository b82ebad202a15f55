"""Sessions start on class data where there is an archive for them, and as ever where there is none."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

import pyspark

from rocketeer.spark.class_data.archives import Archive, DriverJvm, archives_folder, driver_jvm
from rocketeer.spark.submit_options import SUBMIT_OPTIONS, submit_options

SWITCH: Final = "ROCKETEER_CLASS_DATA"
QUIET: Final = "-Xlog:cds*=off"
"""An archive that does not fit is no news: the JVM would say so on the user's terminal."""

_OPTION_VARIABLES: Final = (SUBMIT_OPTIONS, "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_OPTION_SETTINGS: Final = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_OWN_CHOICE: Final = (
    "-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit", "-XX:AOT", "-XX:Flags", "-XX:VMOptionsFile",
    "extraClassPath", "--driver-class-path", "--properties-file",
)  # fmt: skip
"""Users who say this about class data, or about the class path, are left alone: two answers stop a JVM."""
_CLASS_PATH_VARIABLES: Final = (
    "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_PREPEND_CLASSES",
)  # fmt: skip


def wanted_jvm(
    java: Path, config: Mapping[str, object], environment: Mapping[str, str] | None = None
) -> DriverJvm | None:
    """The JVM a session will run on; None where it shall not have class data, or runs already."""
    env = os.environ if environment is None else environment
    if env.get(SWITCH, "").lower() in ("0", "off") or "PYSPARK_GATEWAY_PORT" in env:
        return None
    if "spark.driver.extraClassPath" in config or any(env.get(name) for name in _CLASS_PATH_VARIABLES):
        return None
    texts = [env.get(name, "") for name in _OPTION_VARIABLES]
    texts += [str(config.get(name, "")) for name in _OPTION_SETTINGS]
    if any(word in text for text in texts for word in _OWN_CHOICE):
        return None
    return driver_jvm(java, Path(env.get("SPARK_HOME") or Path(pyspark.__file__).parent), env)


def class_data(java: Path, config: Mapping[str, object]) -> AbstractContextManager[None]:
    """A JVM that is started in the block maps the classes of an earlier one."""
    options = _options(java, config)
    return nullcontext() if options is None else submit_options(*options)


def _options(java: Path, config: Mapping[str, object]) -> list[str] | None:
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        return None  # a JVM runs already
    jvm = wanted_jvm(java, config)
    folder = None if jvm is None else archives_folder(os.environ)
    if jvm is None or folder is None:
        return None
    archive = Archive(folder / jvm.key)
    if not archive.exists or not archive.is_whole():
        return None
    archive.note_use()
    return jvm_options(jvm, archive.option)


def jvm_options(jvm: DriverJvm, *more: str) -> list[str]:
    """What using an archive and writing one have in common: a class path that is the same, entry by entry."""
    return ["-cp", jvm.class_path, QUIET, *more]
