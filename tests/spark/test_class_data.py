"""Class data: the first command has it made, the next ones run on it, and nobody is told, whatever is wrong with it."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.spark.class_data.archives import CHECKSUMS_FILE, SPARK_FILE, Archive, write_checksums
from rocketeer.spark.java import ensure_java, packaged_home
from support.sessions import kill_session

from .conftest import SETTINGS, Broker

pytestmark = [pytest.mark.jvms, pytest.mark.timeout(900)]

MAPPED = "shared objects file (top)"
MADE_S_MAX = 600
MAKING = [sys.executable, "-m", "rocketeer.spark.class_data"]
SESSION = f"""
from rocketeer.spark import session
spark = session("class data", master="local[1]", config={SETTINGS!r})
print("rows:", spark.sql("SELECT 1").count())
spark.stop()
"""


def environment(cache: Path, **given: str) -> dict[str, str]:
    left_out = ("SPARK_HOME", "SPARK_SUBMIT_OPTS")
    inherited = {name: text for name, text in os.environ.items() if name not in left_out}
    return {**inherited, "XDG_CACHE_HOME": str(cache), **given}


def query(
    broker: Broker, topic: str, cache: Path, classes: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """`rocketeer spark query`; `classes` takes a line for each class that the JVM loads, and from where."""
    command = [
        sys.executable,
        "-m",
        "rocketeer",
        "spark",
        "query",
        "-n",
        broker.nameserver,
        "--master",
        "local[2]",
    ]
    command += [
        "-q",
        "--format",
        "csv",
        "-e",
        f"SELECT tags, count(*) AS n FROM {topic} GROUP BY tags ORDER BY tags",
    ]
    if classes is not None:
        command += ["--conf", f"spark.driver.extraJavaOptions=-Xlog:class+load:file={classes}"]
    return subprocess.run(
        command, env=environment(cache), capture_output=True, text=True, timeout=400, check=False
    )


def in_session(cache: Path, classes: Path, java: Path) -> "subprocess.CompletedProcess[str]":
    """A program whose JVM writes to the same terminal."""
    given = {"JAVA_HOME": str(java), "SPARK_SUBMIT_OPTS": f"-Xlog:class+load:file={classes}"}
    return subprocess.run(
        [sys.executable, "-c", SESSION],
        env=environment(cache, **given),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def archives(cache: Path) -> list[Archive]:
    """Those that count."""
    return [Archive(path.parent) for path in cache.glob(f"rocketeer/class-data/*/{CHECKSUMS_FILE}")]


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = broker.topic(2)
    broker.fill(name, 30, queues=2)
    return name


@pytest.fixture(scope="module")
def cache(broker: Broker, topic: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a first command leaves, some time after it has ended."""
    folder = tmp_path_factory.mktemp("first") / "cache"
    done = query(broker, topic, folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "tags,n\nT0,10\nT1,10\nT2,10\n", "")
    assert not archives(folder), "it does not wait for that"
    end_s = time.monotonic() + MADE_S_MAX
    while not archives(folder):
        logs = [path.read_text() for path in folder.glob("rocketeer/class-data/*.log")]
        assert time.monotonic() < end_s, logs
        time.sleep(0.2)
    yield folder
    shutil.rmtree(folder)  # 200 MB, which pytest would keep for three runs


@pytest.fixture
def archive(cache: Path) -> Iterator[Archive]:
    """The archive, whole again afterwards; meanwhile nobody makes another."""
    (found,) = archives(cache)
    log = found.folder.with_name(f"{found.folder.name}.log")
    log.touch()
    content = (found.folder / SPARK_FILE).read_bytes()
    yield found
    (found.folder / SPARK_FILE).unlink()
    (found.folder / SPARK_FILE).write_bytes(content)
    (found.folder / SPARK_FILE).chmod(0o600)
    write_checksums(found.folder)
    log.unlink()


def test_the_second_command_runs_on_what_the_first_had_made(
    broker: Broker, topic: str, cache: Path, tmp_path: Path
) -> None:
    (made,) = archives(cache)
    before = (made.folder / SPARK_FILE).stat()
    done = query(broker, topic, cache, tmp_path / "classes")
    assert (done.returncode, done.stdout, done.stderr) == (0, "tags,n\nT0,10\nT1,10\nT2,10\n", "")
    lines = (tmp_path / "classes").read_text().splitlines()
    sparks = [line for line in lines if "] org.apache.spark." in line and "Lambda" not in line]
    mapped = [line for line in sparks if MAPPED in line]
    assert len(mapped) > 0.9 * len(sparks) > 1000, "of the classes that a query needs"
    assert archives(cache) == [made]
    assert (made.folder / SPARK_FILE).stat() == before, "it was not made again"
    assert list(made.folder.parent.iterdir()) == [made.folder], "nor is anything else left"


@pytest.mark.parametrize("damage", ["a bit", "half"])
def test_a_command_with_a_damaged_archive_starts_as_ever(
    broker: Broker, topic: str, cache: Path, archive: Archive, tmp_path: Path, damage: str
) -> None:
    file = archive.folder / SPARK_FILE
    file.chmod(0o600)
    with file.open("r+b") as content:
        middle = file.stat().st_size // 2
        content.seek(middle)
        byte = content.read(1)
        content.seek(middle)
        if damage == "half":
            content.truncate()
        else:
            content.write(bytes([byte[0] ^ 1]))
    done = query(broker, topic, cache, tmp_path / "classes")
    assert (done.returncode, done.stdout, done.stderr) == (0, "tags,n\nT0,10\nT1,10\nT2,10\n", "")
    assert MAPPED not in (tmp_path / "classes").read_text()
    assert not archives(cache), "the next one makes another"


def test_a_command_without_a_cache_starts_as_ever(broker: Broker, topic: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = query(broker, topic, tmp_path / "file" / "cache", tmp_path / "classes")
    assert (done.returncode, done.stdout, done.stderr) == (0, "tags,n\nT0,10\nT1,10\nT2,10\n", "")
    assert MAPPED not in (tmp_path / "classes").read_text()


def test_a_session_runs_on_it_too_and_the_jvm_says_nothing_of_one_that_does_not_fit(
    cache: Path, archive: Archive, tmp_path: Path
) -> None:
    fits = in_session(cache, tmp_path / "fits", ensure_java())
    assert MAPPED in (tmp_path / "fits").read_text()
    (archive.folder / SPARK_FILE).unlink()
    (archive.folder / SPARK_FILE).write_bytes(b"of another Java" * 10_000)
    (archive.folder / SPARK_FILE).chmod(0o600)
    write_checksums(archive.folder)
    misfit = in_session(cache, tmp_path / "misfit", ensure_java())
    assert MAPPED not in (tmp_path / "misfit").read_text()
    for done in (fits, misfit):
        assert (done.returncode, done.stdout) == (0, "rows: 1\n"), done.stderr
        assert "cds" not in done.stderr
        assert "archive" not in done.stderr


def test_a_java_without_class_data_of_its_own_gets_that_as_well_also_after_a_kill(tmp_path: Path) -> None:
    java = packaged_home()
    assert java is not None
    cache = tmp_path / "cache"
    env = environment(cache, JAVA_HOME=str(java))
    with subprocess.Popen(MAKING, env=env, start_new_session=True, stderr=subprocess.DEVNULL) as killed:
        end_s = time.monotonic() + MADE_S_MAX
        while not list(cache.glob("rocketeer/class-data/*/base.jsa")):
            assert time.monotonic() < end_s
            time.sleep(0.05)
        kill_session(killed.pid)
    assert not archives(cache)
    made = subprocess.run(MAKING, env=env, capture_output=True, text=True, timeout=MADE_S_MAX, check=False)
    assert made.returncode == 0, made.stderr
    (archive,) = archives(cache)
    assert archive.is_whole()
    done = in_session(cache, tmp_path / "classes", java)
    assert (done.returncode, done.stdout) == (0, "rows: 1\n"), done.stderr
    assert "cds" not in done.stderr
    assert MAPPED in (tmp_path / "classes").read_text()
    shutil.rmtree(cache)
