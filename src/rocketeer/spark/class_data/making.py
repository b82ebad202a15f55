"""Making an archive: a JVM of its own runs a little of everything, and writes its classes down as it ends.

Nobody's session runs in such a JVM: it is slower than others, and takes ten seconds to end. Commands have an archive
made when they have ended (`make_later`), in the background; `python -m rocketeer.spark.class_data` makes it at once.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import Final

from rocketeer.errors import RocketeerError
from rocketeer.spark.class_data.archives import (
    BASE_FILE,
    LOG_SUFFIX,
    RETRY_S,
    SPARK_FILE,
    Archive,
    DriverJvm,
    archives_folder,
    remove_old,
    shared_file_option,
    write_checksums,
)
from rocketeer.spark.class_data.use import QUIET, jvm_options, wanted_jvm
from rocketeer.spark.submit_options import SUBMIT_OPTIONS, submit_options

IN_BACKGROUND: Final = "--in-background"
FREE_BYTES_MIN: Final = 1 << 30
"""Fewest free bytes of the cache's disk: an archive takes 200 MB, and the user wants the rest."""
_STEP_S_MAX: Final = 600
_NOT_HANDED_ON: Final = (
    SUBMIT_OPTIONS, "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_MASTER",
)  # fmt: skip
"""They may ask for what only the user's own session needs."""
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    # All of it runs once: what a thorough compiler would make of it is used by nobody.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
_USED: Final = "SparkSubmit source: shared objects file (top)"
"""What a JVM says of a class that it has from an archive."""


class NoClassData(RocketeerError):
    """An archive could not be made."""


def make_later(java: Path, config: Mapping[str, object]) -> None:
    """Have an archive made in the background if sessions like this one could use it and there is none."""
    jvm = wanted_jvm(java, config)
    folder = None if jvm is None else archives_folder(os.environ)
    if jvm is None or folder is None or Archive(folder / jvm.key).exists:
        return
    with suppress(OSError):  # no archive is no reason for a command to fail
        if shutil.disk_usage(folder).free < FREE_BYTES_MIN:
            return
        log = claimed(folder / f"{jvm.key}{LOG_SUFFIX}", time.time())
        if log is None:
            return
        try:
            _start(folder, log)
        finally:
            os.close(log)


def claimed(log: Path, now_s: float) -> int | None:
    """The log, open for writing, if nobody makes the archive or failed to of late; of two that ask one gets it."""
    try:
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    except FileExistsError:
        if now_s - log.stat().st_mtime < RETRY_S:
            return None
        os.utime(log, (now_s, now_s))
        return os.open(log, os.O_WRONLY | os.O_APPEND)


def _start(folder: Path, log: int) -> None:
    environment = {name: text for name, text in os.environ.items() if name not in _NOT_HANDED_ON}
    process = subprocess.Popen(
        [sys.executable, "-m", "rocketeer.spark.class_data", IN_BACKGROUND],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=folder,
        env=environment,
        start_new_session=True,  # it outlives the terminal, and Ctrl-C is not for it
    )
    process.returncode = 0  # nobody waits for it: Python would warn of that


def make(java: Path) -> Archive:
    """The archive for sessions that run on this Java, made here unless it is there; NoClassData if it cannot be.

    Ends the process's Spark, so the process must be one of its own.
    """
    jvm = wanted_jvm(java, {})
    folder = archives_folder(os.environ)
    if jvm is None:
        raise NoClassData("sessions here are told to do without, or have a class path of their own")
    if folder is None:
        raise NoClassData("the user's cache folder cannot be written, or is not the user's alone")
    archive = Archive(folder / jvm.key)
    with _alone(folder / f"{jvm.key}{LOG_SUFFIX}"):
        if not archive.exists:
            _make(jvm, archive.folder)
            remove_old(folder, time.time())
    return archive


@contextmanager
def _alone(log: Path) -> Iterator[None]:
    """Let one process at a time make an archive; the log is removed when all went well."""
    lock = os.open(log, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        log.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _make(jvm: DriverJvm, folder: Path) -> None:
    os.umask(0o077)  # files that others may write are not trusted
    shutil.rmtree(folder, ignore_errors=True)  # one that was damaged, or never finished
    folder.mkdir(mode=0o700)
    try:
        if not jvm.has_base:
            _run([_java(jvm), "-Xshare:dump", QUIET, f"-XX:SharedArchiveFile={folder / BASE_FILE}"])
        # Sessions leave folders where they run.
        with tempfile.TemporaryDirectory(prefix="rocketeer-class-data-") as scratch, chdir(scratch):
            _write_classes(jvm, folder, Path(scratch))
        _check_used(jvm, folder)
        write_checksums(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write_classes(jvm: DriverJvm, folder: Path, scratch: Path) -> None:
    """Run what jobs run, in a session whose JVM writes its classes down when it ends."""
    from rocketeer.spark.class_data.training import train
    from rocketeer.spark.sessions import session

    base = [] if jvm.has_base else [shared_file_option(folder)]
    target = folder / SPARK_FILE
    with submit_options(*jvm_options(jvm, *base, f"-XX:ArchiveClassesAtExit={target}")):
        spark = session("class data", master="local[2]", config=_SETTINGS)
    java = spark.sparkContext._gateway
    assert java is not None
    train(spark, scratch)
    spark.stop()
    java.proc.stdin.close()  # at which the JVM ends
    code = java.proc.wait(_STEP_S_MAX)
    if code or not target.exists():
        raise NoClassData(f"the JVM ended with {code} and wrote {'an' if target.exists() else 'no'} archive")


def _check_used(jvm: DriverJvm, folder: Path) -> None:
    """Java has reasons of its own to leave an archive aside, which differ by version."""
    options = jvm_options(jvm, shared_file_option(folder), "-Xlog:class+load")
    shown = _run([_java(jvm), *options, "org.apache.spark.deploy.SparkSubmit", "--version"])
    if _USED not in shown:
        raise NoClassData("this Java does not use the archive that it wrote")


def _java(jvm: DriverJvm) -> str:
    return str(jvm.java / "bin" / "java")


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_STEP_S_MAX, check=False)
    if done.returncode:
        raise NoClassData(f"{command[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
