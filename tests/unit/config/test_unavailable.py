"""What the engine does not do yet is said at start, not ignored."""

import dataclasses
import re
from pathlib import Path

import pytest

import rocketeer
from rocketeer.config import BrokerConfig, NamesrvConfig, Role, ServerConfig, StoreConfig, read_config
from rocketeer.config.unavailable import NO_EFFECT, refuse_unavailable, without_effect
from rocketeer.errors import ConfigError


@pytest.mark.parametrize("line", ["enableDLegerCommitLog=true", "duplicationEnable=true"])
def test_what_somebody_relies_on_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(line + "\n")
    with pytest.raises(ConfigError, match=line.split("=")[0]):
        refuse_unavailable(read_config(path, Role.BROKER))


def test_changed_settings_without_effect_are_named_and_defaults_are_not(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("flushCommitLogLeastPages=8\nfileReservedTime=48\n")
    settings = read_config(path, Role.BROKER)
    refuse_unavailable(settings)
    assert without_effect(settings) == ["flushCommitLogLeastPages"]


def test_keys_that_only_java_has_a_use_for_are_named_too(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(
        "transientStorePoolEnable=true\nflushDelayOffsetInterval=99\nduplicationEnable=false\nbrokerName=a\n"
    )
    settings = read_config(path, Role.BROKER)
    assert sorted(without_effect(settings)) == ["flushDelayOffsetInterval", "transientStorePoolEnable"]
    assert settings.warnings == ()


def test_a_name_server_says_it_too(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.conf"
    path.write_text("clusterTest=true\nserverWorkerThreads=32\norderMessageEnable=true\n")
    assert sorted(without_effect(read_config(path, Role.NAMESRV))) == ["clusterTest", "serverWorkerThreads"]


def test_the_list_names_the_fields_that_no_part_reads() -> None:
    """By the text of the sources: a field that somebody begins to read, or ceases to, is noticed here."""
    fields = {
        item.name
        for kind in (BrokerConfig, StoreConfig, ServerConfig, NamesrvConfig)
        for item in dataclasses.fields(kind)
    }
    engine = Path(rocketeer.__file__).parent
    sources = [path.read_text() for path in engine.rglob("*.py")]
    read = {name for text in sources for name in re.findall(r"\.(\w+)", text)}
    assert fields - read == NO_EFFECT
