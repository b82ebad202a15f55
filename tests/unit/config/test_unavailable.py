"""What the engine does not do yet is said at start, not ignored."""

import dataclasses
from pathlib import Path

import pytest

from rocketeer.config import BrokerConfig, Role, ServerConfig, StoreConfig, read_config
from rocketeer.config.unavailable import NO_EFFECT, refuse_unavailable, without_effect
from rocketeer.errors import ConfigError


@pytest.mark.parametrize(
    "line", ["aclEnable=true", "brokerRole=SLAVE", "brokerRole=SYNC_MASTER", "enableDLegerCommitLog=true"]
)
def test_what_somebody_relies_on_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(line + "\n")
    with pytest.raises(ConfigError, match=line.split("=")[0]):
        refuse_unavailable(read_config(path, Role.BROKER))


def test_changed_settings_without_effect_are_named_and_defaults_are_not(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("haSendHeartbeatInterval=3000\nfileReservedTime=48\n")
    settings = read_config(path, Role.BROKER)
    refuse_unavailable(settings)
    assert without_effect(settings) == ["haSendHeartbeatInterval"]


def test_the_list_names_fields_that_exist() -> None:
    known = {
        item.name for kind in (BrokerConfig, StoreConfig, ServerConfig) for item in dataclasses.fields(kind)
    }
    assert known >= NO_EFFECT
