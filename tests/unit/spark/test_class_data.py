"""Archives of class data: for which JVM, when they count, which stay, and who is left alone. No JVM runs here."""

import json
import os
from pathlib import Path

import pytest

from rocketeer.spark.class_data.archives import (
    BASE_FILE,
    CHECKSUMS_FILE,
    KEPT_MAX,
    LEFT_BEHIND_S,
    RETRY_S,
    SPARK_FILE,
    Archive,
    archives_folder,
    driver_jvm,
    remove_old,
    write_checksums,
)
from rocketeer.spark.class_data.making import claimed, make_later
from rocketeer.spark.class_data.use import SWITCH, class_data, jvm_options, wanted_jvm
from rocketeer.spark.submit_options import SUBMIT_OPTIONS, options_text

NOW_S = 1_800_000_000.0


@pytest.fixture
def java(tmp_path: Path) -> Path:
    home = tmp_path / "java"
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "modules").write_bytes(b"modules")
    (home / "lib" / "server" / "classes.jsa").write_bytes(b"base")
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    return home


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    for name in ("b.jar", "a.jar", "slf4j-api-2.jar", "notes.txt"):
        (home / "jars" / name).write_text(name)
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", SUBMIT_OPTIONS, SWITCH, "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(home))
    return home


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def _archive(folder: Path, *, base: bool = False) -> Archive:
    folder.mkdir(mode=0o700, parents=True)
    (folder / SPARK_FILE).write_bytes(os.urandom(3 << 20))
    if base:
        (folder / BASE_FILE).write_bytes(b"base")
    for path in folder.iterdir():
        path.chmod(0o600)
    write_checksums(folder)
    (folder / CHECKSUMS_FILE).chmod(0o600)
    return Archive(folder)


# --- which JVM ---------------------------------------------------------------------------------------


def test_the_class_path_has_each_jar_once_and_slf4j_first(java: Path, spark_home: Path) -> None:
    jvm = driver_jvm(java, spark_home, {})
    assert jvm is not None
    assert [jar.name for jar in jvm.jars] == ["slf4j-api-2.jar", "a.jar", "b.jar"]
    assert driver_jvm(java, spark_home, {}) == jvm, "the same tomorrow"


def test_a_home_of_links_has_the_key_of_what_it_links_to(
    java: Path, spark_home: Path, tmp_path: Path
) -> None:
    """Sessions run in such homes, which are in the temporary folder: that may have another name each time."""
    keys = set()
    for name in ("one", "two"):
        links = tmp_path / name
        for part, real in (("spark/jars", spark_home / "jars"), ("java/lib", java / "lib")):
            (links / part).parent.mkdir(parents=True, exist_ok=True)
            (links / part).symlink_to(real)
        (links / "java/release").symlink_to(java / "release")
        jvm = driver_jvm(links / "java", links / "spark", {})
        assert jvm is not None
        keys.add((jvm.key, jvm.class_path))
    assert len(keys) == 1


@pytest.mark.parametrize(
    "change", ["java/release", "java/lib/modules", "spark/jars/a.jar", "spark/jars/c.jar"]
)
def test_another_build_of_java_or_another_jar_is_another_jvm(
    java: Path, spark_home: Path, tmp_path: Path, change: str
) -> None:
    before = driver_jvm(java, spark_home, {})
    with (tmp_path / change).open("a") as file:
        file.write("x")
    after = driver_jvm(java, spark_home, {})
    assert before is not None
    assert after is not None
    assert before.key != after.key


def test_a_folder_with_settings_of_spark_comes_first_in_the_class_path_so_there_is_no_archive(
    java: Path, spark_home: Path
) -> None:
    settings = spark_home / "conf"
    settings.mkdir()
    assert driver_jvm(java, spark_home, {}) is not None
    (settings / "spark-defaults.conf").write_text("")
    assert driver_jvm(java, spark_home, {}) is None
    assert driver_jvm(java, spark_home, {"SPARK_CONF_DIR": str(settings)}) is None


def test_a_java_or_a_spark_that_is_not_complete_has_none(
    java: Path, spark_home: Path, tmp_path: Path
) -> None:
    assert driver_jvm(java, tmp_path / "nowhere", {}) is None
    assert driver_jvm(tmp_path / "nowhere", spark_home, {}) is None


# --- who is left alone -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "config"),
    [
        ({SWITCH: "0"}, {}),
        ({SWITCH: "off"}, {}),
        ({"PYSPARK_GATEWAY_PORT": "4711"}, {}),
        ({"HADOOP_CONF_DIR": "/etc/hadoop"}, {}),
        ({SUBMIT_OPTIONS: "-Xshare:off"}, {}),
        ({"JAVA_TOOL_OPTIONS": "-XX:SharedArchiveFile=/mine.jsa"}, {}),
        ({"PYSPARK_SUBMIT_ARGS": "--driver-class-path /mine pyspark-shell"}, {}),
        ({"PYSPARK_SUBMIT_ARGS": "--conf spark.driver.extraClassPath=/mine pyspark-shell"}, {}),
        ({}, {"spark.driver.extraClassPath": "/mine.jar"}),
        ({}, {"spark.driver.extraJavaOptions": "-Xmx1g -XX:AOTCache=mine"}),
        ({}, {"spark.driver.defaultJavaOptions": "-XX:ArchiveClassesAtExit=/mine.jsa"}),
    ],
)
def test_who_has_chosen_otherwise_is_left_alone(
    java: Path, spark_home: Path, environment: dict[str, str], config: dict[str, str]
) -> None:
    here = {"SPARK_HOME": str(spark_home)}
    assert wanted_jvm(java, config, here | environment) is None
    harmless = {SUBMIT_OPTIONS: "-Dx=y", "PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell", SWITCH: ""}
    assert wanted_jvm(java, {"spark.driver.memory": "1g"}, here | harmless) is not None


def test_options_come_before_the_users_and_only_while_a_session_starts(
    java: Path, spark_home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setenv(SUBMIT_OPTIONS, "-Dmine=1")
    with class_data(java, {}):
        assert os.environ[SUBMIT_OPTIONS] == "-Dmine=1", "there is no archive"
    jvm = wanted_jvm(java, {})
    assert jvm is not None
    archive = _archive(cache / "rocketeer" / "class-data" / jvm.key)
    with class_data(java, {}):
        options = os.environ[SUBMIT_OPTIONS].split()
    assert options[:2] == ["-cp", jvm.class_path]
    assert options[-2:] == [f"-XX:SharedArchiveFile={archive.folder / SPARK_FILE}", "-Dmine=1"]
    assert os.environ[SUBMIT_OPTIONS] == "-Dmine=1"
    monkeypatch.delenv(SUBMIT_OPTIONS)
    with class_data(java, {}):
        assert "SharedArchiveFile" in os.environ[SUBMIT_OPTIONS]
    assert SUBMIT_OPTIONS not in os.environ


def test_paths_with_spaces_and_quotes_reach_the_jvm_whole(java: Path, tmp_path: Path) -> None:
    jars = tmp_path / 'a "b" c' / "jars"
    jars.mkdir(parents=True)
    (jars / "x.jar").touch()
    jvm = driver_jvm(java, jars.parent, {})
    assert jvm is not None
    folder = str(jars).replace('"', '\\"')
    assert options_text(*jvm_options(jvm, "-Dx=y")) == f'-cp "{folder}/x.jar" -Xlog:cds*=off -Dx=y'


# --- whom to trust -----------------------------------------------------------------------------------


def test_archives_are_in_a_folder_of_the_user_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = archives_folder(os.environ)
    assert folder == cache / "rocketeer" / "class-data"
    assert folder is not None
    for path in (folder, folder.parent):
        assert path.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("HOME", str(cache))
    for nowhere in ({}, {"XDG_CACHE_HOME": "not/absolute"}):
        assert archives_folder(nowhere) == cache / ".cache" / "rocketeer" / "class-data"


@pytest.mark.parametrize("part", ["rocketeer", "rocketeer/class-data"])
def test_a_folder_that_others_may_write_and_a_link_are_not_trusted(
    cache: Path, tmp_path: Path, part: str
) -> None:
    folder = archives_folder(os.environ)
    (cache / part).chmod(0o720)
    assert archives_folder(os.environ) is None
    (cache / part).chmod(0o700)
    assert archives_folder(os.environ) == folder
    (cache / part).rename(tmp_path / "elsewhere")
    (cache / part).symlink_to(tmp_path / "elsewhere")
    assert archives_folder(os.environ) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_another_user_owns_is_not_trusted(cache: Path) -> None:
    folder = archives_folder(os.environ)
    assert folder is not None
    archive = _archive(folder / "key")
    assert archive.exists
    os.chown(archive.folder / SPARK_FILE, 12345, -1)
    assert not archive.is_whole()
    os.chown(folder, 12345, -1)
    assert archives_folder(os.environ) is None
    os.chown(folder, 0, -1)
    os.chown(cache, 12345, -1)
    assert archives_folder(os.environ) is None, "root in the home of a user"


def test_a_cache_that_cannot_be_written_is_no_error(
    java: Path, spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
        with class_data(java, {}):
            assert SUBMIT_OPTIONS not in os.environ
        make_later(java, {})


# --- what counts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["a bit", "shorter", "longer", "gone", "checksums"])
def test_a_damaged_archive_does_not_count_any_more(tmp_path: Path, damage: str) -> None:
    archive = _archive(tmp_path / "key", base=True)
    assert archive.exists
    assert archive.is_whole()
    file = archive.folder / (CHECKSUMS_FILE if damage == "checksums" else SPARK_FILE)
    content = bytearray(file.read_bytes())
    if damage == "a bit":
        content[len(content) // 2] ^= 1
    elif damage == "longer":
        content += b"x"
    else:
        del content[-1:]
    file.write_bytes(content)
    if damage == "gone":
        file.unlink()
    assert not archive.is_whole()
    assert not archive.exists, "so that another is made"


def test_what_a_killed_maker_leaves_does_not_count(tmp_path: Path) -> None:
    archive = _archive(tmp_path / "key")
    (archive.folder / CHECKSUMS_FILE).rename(archive.folder / f"{CHECKSUMS_FILE}.tmp")
    assert not archive.exists
    assert not archive.is_whole()


def test_javas_own_classes_stand_before_sparks(tmp_path: Path) -> None:
    archive = _archive(tmp_path / "key", base=True)
    assert (
        archive.option == f"-XX:SharedArchiveFile={archive.folder / BASE_FILE}:{archive.folder / SPARK_FILE}"
    )
    assert set(json.loads((archive.folder / CHECKSUMS_FILE).read_text())) == {BASE_FILE, SPARK_FILE}


# --- making ------------------------------------------------------------------------------------------


def test_of_two_commands_one_has_it_made_and_what_failed_rests_for_a_day(tmp_path: Path) -> None:
    log = tmp_path / "key.log"
    first = claimed(log, NOW_S)
    assert first is not None
    os.close(first)
    os.utime(log, (NOW_S, NOW_S))
    assert claimed(log, NOW_S + RETRY_S - 1) is None
    again = claimed(log, NOW_S + RETRY_S + 1)
    assert again is not None
    os.close(again)
    assert claimed(log, NOW_S + RETRY_S + 2) is None


def test_the_archives_used_last_stay(tmp_path: Path) -> None:
    used = [_archive(tmp_path / f"key{number}").folder for number in range(KEPT_MAX + 2)]
    for age, folder in enumerate(used):
        os.utime(folder, (NOW_S - age, NOW_S - age))
    for name, age_s in (("old", LEFT_BEHIND_S + 1), ("new", LEFT_BEHIND_S - 1)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (NOW_S - age_s, NOW_S - age_s))
    for name, age_s in (("old.log", RETRY_S + 1), ("new.log", RETRY_S - 1)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (NOW_S - age_s, NOW_S - age_s))
    remove_old(tmp_path, NOW_S)
    assert {path.name for path in tmp_path.iterdir()} == {"key0", "key1", "key2", "new", "new.log"}
