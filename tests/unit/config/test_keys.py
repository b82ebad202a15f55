"""The table of RocketMQ's keys, and that our values agree with it."""

import dataclasses

import pytest

from rocketeer.config import (
    BrokerConfig,
    BrokerLimits,
    NamesrvConfig,
    NamesrvLimits,
    ServerConfig,
    ServerLimits,
    StoreConfig,
    effective_properties,
)
from rocketeer.config.group import ReplicaGroupConfig
from rocketeer.config.keys import BROKER_CLASSES, NAMESRV_CLASSES, find_key, known_keys, nearest_key

CLASS_OF = {
    BrokerConfig: "BrokerConfig",
    StoreConfig: "MessageStoreConfig",
    ServerConfig: "NettyServerConfig",
    NamesrvConfig: "NamesrvConfig",
    BrokerLimits: "BrokerConfig",
    ReplicaGroupConfig: "BrokerConfig",
    ServerLimits: "NettyServerConfig",
    NamesrvLimits: "NamesrvConfig",
}
DEVIATIONS = {"enablePropertyFilter": "true"}


@pytest.mark.parametrize("config", CLASS_OF, ids=lambda config: config.__name__)
def test_every_field_stands_beside_a_key_of_its_own_class_and_has_its_default(config: type) -> None:
    texts = effective_properties(config())
    for item in dataclasses.fields(config):
        if "java" not in item.metadata:
            continue
        key = known_keys()[CLASS_OF[config], item.metadata["java"]]
        if key.default is not None and not key.default.startswith("$"):
            assert texts[key.name] == DEVIATIONS.get(key.name, key.default), key.name


def test_no_key_has_two_fields() -> None:
    for configs in ((BrokerConfig, StoreConfig, ServerConfig), (NamesrvConfig, ServerConfig)):
        keys = [
            item.metadata["java"]
            for config in configs
            for item in dataclasses.fields(config)
            if "java" in item.metadata
        ]
        assert len(keys) == len(set(keys))


def test_every_default_in_the_table_is_a_value_of_its_type() -> None:
    for key in known_keys().values():
        if key.default is not None and not key.default.startswith("$"):
            assert key.accepts(key.default), key


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "brokerPermission",
            ["0", "-1", "+7", "2147483647"],
            ["", "1.5", "0x10", "2147483648", "1g", "\u0661"],
        ),
        ("brokerId", ["9223372036854775807"], ["9223372036854775808", "one"]),
        ("aclEnable", ["true", "FALSE"], ["yes", "1", ""]),
        ("flushDiskType", ["SYNC_FLUSH"], ["sync_flush", "SYNC", ""]),
        ("brokerRole", ["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"], ["MASTER"]),
    ],
)
def test_a_value_is_accepted_only_if_java_could_parse_it(name: str, good: list[str], bad: list[str]) -> None:
    key = find_key(name, BROKER_CLASSES)
    assert key is not None
    assert [text for text in good if not key.accepts(text)] == []
    assert [text for text in bad if key.accepts(text)] == []


def test_a_misspelt_key_finds_its_neighbour() -> None:
    assert nearest_key("BrokerName", BROKER_CLASSES) == "brokerName"
    assert nearest_key("flushDiskTyp", BROKER_CLASSES) == "flushDiskType"
    assert nearest_key("kvConfigpath", NAMESRV_CLASSES) == "kvConfigPath"
    assert nearest_key("zzzzzz", BROKER_CLASSES) is None
