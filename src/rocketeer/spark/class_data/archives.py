"""Archives of class data in the user's cache: which JVM each is for, whether it is whole, which of them are kept.

    $XDG_CACHE_HOME/rocketeer/class-data/       0700, as all below; ~/.cache without the variable
      KEY/spark.jsa                             the classes of Spark, for one Java and one list of jars
      KEY/base.jsa                              those of Java, if it comes without
      KEY/checksums.json                        of the files above; written last, and without it they do not count
      KEY.log                                   being made, or could not be made; who makes it has locked this

Files are written where they stay, because Spark's part names the path of Java's. A JVM that maps a damaged archive
crashes, so each use checks the checksums first.
"""

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketeer.spark.private_folders import is_private, make_private
from rocketeer.whole_file import replace_file, sync_path

SPARK_FILE: Final = "spark.jsa"
BASE_FILE: Final = "base.jsa"
CHECKSUMS_FILE: Final = "checksums.json"
KEPT_MAX: Final = 3
"""Archives that stay, the last used ones: some 200 MB each."""
LEFT_BEHIND_S: Final = 3600.0
"""What was begun so long ago is not being made any more."""
LOG_SUFFIX: Final = ".log"
RETRY_S: Final = 86400.0
"""What could not be made is not tried again for so long."""
_CLASSES_LOADED: Final = 1
"""Which classes are in: to be raised when `training` changes, so that archives are made anew."""
_FIRST: Final = "slf4j-api-"
"""Spark's launcher puts this jar first, and names it twice, which makes Java 21 refuse an archive it wrote itself."""
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class DriverJvm:
    """The JVM of a driver: a Java, and the jars of a Spark. An archive fits one of them only."""

    java: Path
    jars: tuple[Path, ...]
    key: str
    """Changes with whatever makes a JVM refuse an archive: Java's build, the jars, where they are."""

    @property
    def class_path(self) -> str:
        return os.pathsep.join(map(str, self.jars))

    @property
    def has_base(self) -> bool:
        """Whether this Java has an archive of its own classes, which others add to; one from PyPI has none."""
        return (self.java / "lib" / "server" / "classes.jsa").exists()


def driver_jvm(java: Path, spark_home: Path, environment: Mapping[str, str]) -> DriverJvm | None:
    """What a session runs on; None where its class path has more than Spark's jars, or cannot be told."""
    try:
        configuration = Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf")
        if configuration.is_dir() and any(configuration.iterdir()):
            return None  # a folder with files comes first in the class path, which archives do not allow
        folder = (spark_home / "jars").resolve()
        jars = sorted(path for path in folder.iterdir() if path.suffix == ".jar")
        jars.sort(key=lambda path: not path.name.startswith(_FIRST))
        if not jars or os.pathsep in str(folder):
            return None
        return DriverJvm(java, tuple(jars), _key(java, jars))
    except OSError:
        return None


def _key(java: Path, jars: list[Path]) -> str:
    library = (java / "lib").resolve()
    parts = [str(_CLASSES_LOADED), (java / "release").read_text()]
    for file in (library / "modules", *jars):
        state = file.stat()
        # Whole seconds, as JVMs compare them: images and some file systems drop the rest.
        parts.append(f"{file} {state.st_size} {int(state.st_mtime)}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def archives_folder(environment: Mapping[str, str]) -> Path | None:
    """Where archives are, made if need be; None if that is no place for this user's files alone."""
    given = environment.get("XDG_CACHE_HOME", "")
    try:
        cache = (Path(given) if given.startswith("/") else Path.home() / ".cache").resolve()
        cache.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):  # read-only; a user without a home
        return None
    ours = cache / "rocketeer"
    folder = ours / "class-data"
    if os.pathsep in str(folder) or not (make_private(ours) and make_private(folder)):
        return None
    return folder


@dataclass(frozen=True)
class Archive:
    """The files that were made for one JVM, in a folder that has its key's name."""

    folder: Path

    @property
    def exists(self) -> bool:
        return is_private(self.folder) and is_private(self.folder / CHECKSUMS_FILE)

    @property
    def option(self) -> str:
        """What makes a JVM map it."""
        return shared_file_option(self.folder)

    def is_whole(self) -> bool:
        """Whether all bytes are those that were written. If not, they do not count any more: others will be made."""
        try:
            checksums = json.loads((self.folder / CHECKSUMS_FILE).read_text())
            whole = self.exists and all(
                is_private(self.folder / name) and checksum(self.folder / name) == expected
                for name, expected in checksums.items()
            )
        except (OSError, ValueError, AttributeError):
            whole = False
        if not whole and is_private(self.folder):
            with suppress(OSError):
                (self.folder / CHECKSUMS_FILE).unlink()
        return whole

    def note_use(self) -> None:
        with suppress(OSError):  # in a read-only cache, where nothing is removed either
            os.utime(self.folder)


def shared_file_option(folder: Path) -> str:
    """Java's own classes, if they had to be made, and Spark's."""
    files = [path for name in (BASE_FILE, SPARK_FILE) if (path := folder / name).exists()]
    return f"-XX:SharedArchiveFile={os.pathsep.join(map(str, files))}"


def checksum(file: Path) -> list[int]:
    """Length and CRC-32: 0.1 s for an archive."""
    crc = length = 0
    buffer = memoryview(bytearray(_READ_BYTES))
    with file.open("rb", buffering=0) as source:
        while count := source.readinto(buffer):
            crc = zlib.crc32(buffer[:count], crc)
            length += count
    return [length, crc]


def write_checksums(folder: Path) -> None:
    """From now on the files count: they are on disk before they are named."""
    files = [path for name in (BASE_FILE, SPARK_FILE) if (path := folder / name).exists()]
    for path in files:
        sync_path(path)
    record = folder / CHECKSUMS_FILE
    replace_file(record, json.dumps({path.name: checksum(path) for path in files}).encode())


def remove_old(folder: Path, now_s: float) -> None:
    """Keep the archives that were used last; take away what was never finished, and old logs."""
    archives: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        age_s = now_s - path.lstat().st_mtime
        if path.suffix == LOG_SUFFIX:
            if age_s > RETRY_S:
                path.unlink(missing_ok=True)
        elif Archive(path).exists:
            archives.append((age_s, path))
        elif age_s > LEFT_BEHIND_S:
            shutil.rmtree(path, ignore_errors=True)
    for _, path in sorted(archives)[KEPT_MAX:]:
        shutil.rmtree(path, ignore_errors=True)
