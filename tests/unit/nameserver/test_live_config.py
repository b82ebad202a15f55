"""Laws of settings changed while running: all or nothing, and the next start knows."""

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.config import NamesrvConfig, ServerConfig
from rocketeer.config.properties import parse_properties, properties_text
from rocketeer.config.reading import read_config
from rocketeer.config.settings import ServerRole
from rocketeer.errors import ConfigError
from rocketeer.nameserver.live_config import NameServerLiveConfig, changed
from rocketeer.protocol.bodies.properties import decode_settings


def config_in(folder: Path) -> NamesrvConfig:
    return NamesrvConfig(
        kv_config_path=folder / "kvConfig.json",
        config_path=folder / "namesrv.properties",
        server=ServerConfig(bind_host="127.0.0.1", listen_port=9876),
    )


@given(st.dictionaries(st.from_regex("[a-zA-Z]{1,9}", fullmatch=True), st.text(max_size=20)))
def test_properties_read_back_as_they_were_written(properties: dict[str, str]) -> None:
    clean = {key: value.encode("utf-8", "replace").decode() for key, value in properties.items()}
    assert {entry.key: entry.value for entry in parse_properties(properties_text(clean))} == clean


async def test_a_change_counts_at_once_and_for_the_next_start(tmp_path: Path) -> None:
    live = NameServerLiveConfig(config_in(tmp_path))
    await live.update(
        {"orderMessageEnable": "true", "serverWorkerThreads": "16", "serverChannelMaxIdleTimeSeconds": "60"}
    )
    assert live.value.order_message_enable
    assert live.value.server.idle_s == 60
    assert live.properties()["serverWorkerThreads"] == "16"
    next_start = read_config(tmp_path / "namesrv.properties", ServerRole.NAMESRV, environment={})
    assert next_start.namesrv.order_message_enable
    assert next_start.namesrv.server == live.value.server
    assert next_start.namesrv.kv_config_path == tmp_path / "kvConfig.json"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"noSuchKey": "1"}, "unknown key noSuchKey"),
        ({"brokerName": "x"}, "unknown key brokerName"),
        ({"clusterTest": "maybe"}, "clusterTest=maybe: expected true or false"),
        ({"listenPort": "many"}, "listenPort=many: expected a whole number"),
        ({"listenPort": "70000"}, "listenPort=70000: expected"),
        ({"supportActingMaster": "true"}, "supportActingMaster is a key of RocketMQ 5"),
        ({"limitBrokers": "5"}, "limitBrokers is read at the start"),
    ],
)
async def test_one_bad_key_or_value_and_nothing_changes(
    tmp_path: Path, changes: dict[str, str], why: str
) -> None:
    live = NameServerLiveConfig(config_in(tmp_path))
    before = live.properties()
    with pytest.raises(ConfigError, match=why):
        await live.update({"orderMessageEnable": "true", **changes})
    assert live.properties() == before
    assert os.listdir(tmp_path) == []


def test_changing_nothing_changes_nothing(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    assert changed(config, {"a": "b"}, {}) == (config, {"a": "b"})


def test_locked_keys_are_rocketmqs_and_those_of_the_black_list(tmp_path: Path) -> None:
    live = NameServerLiveConfig(replace(config_in(tmp_path), config_black_list="productEnvName;clusterTest"))
    for key in ("kvConfigPath", "configStorePath", "configBlackList", "rocketmqHome", "productEnvName"):
        assert live.is_locked(key)
    assert not live.is_locked("orderMessageEnable")


def test_a_body_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError):
        decode_settings(b"\xff\xfe=1")
    assert decode_settings(b"a = b \n# c\n") == {"a": "b"}


async def test_the_log_level_changes_at_once(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = root.level
    try:
        live = NameServerLiveConfig(config_in(tmp_path))
        await live.update({"logLevel": "error"})
        assert root.level == logging.ERROR
        with pytest.raises(ConfigError, match="expected debug, info, warning or error"):
            await live.update({"logLevel": "loud"})
        assert root.level == logging.ERROR
        assert (
            read_config(tmp_path / "namesrv.properties", ServerRole.NAMESRV, environment={}).namesrv.log_level
            == "error"
        )
    finally:
        root.setLevel(before)
