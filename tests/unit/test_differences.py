"""README's table of differences from RocketMQ 4.9.8: those that the configuration decides are read off and compared."""

import re
from pathlib import Path

import pytest

from rocketeer.config import (
    BrokerConfig,
    NamesrvConfig,
    ServerConfig,
    ServerRole,
    StoreConfig,
    effective_properties,
    read_config,
)
from rocketeer.config.command_line import parse_words
from rocketeer.config.keys import known_keys
from rocketeer.config.unavailable import NO_EFFECT
from rocketeer.errors import ConfigError

ROOT = Path(__file__).parents[2]

PROVED_BY = {
    "`enablePropertyFilter` is on": "unit/test_differences.py::test_sql_filters_are_on",
    "topic permissions are enforced": "unit/broker/test_messages.py::test_a_topic_that_may_not_be_written_or_read_says_so",
    "an unknown request code": "golden/test_nameserver_replay.py::test_an_unknown_code_is_answered",
    "a value that does not parse": "unit/test_differences.py::test_a_value_that_does_not_parse_is_an_error",
    "a transaction ends once":
        "unit/broker/test_transactions.py::test_a_transaction_ends_once_whoever_says_so_how_often",
    "a delivery goes back": "unit/broker/test_sent_back.py::test_the_same_delivery_goes_back_once",
    "a failed message comes again":
        "unit/broker/test_delay_and_retry.py::test_our_clients_choose_the_pause_to_the_millisecond_as_often_as_they_fail",
    "timers as in 5.x": "unit/test_differences.py::test_timers_reach_as_far_as_the_table_says",
    "a setting changed at run time":
        "unit/broker/test_live_config.py::test_what_cannot_be_is_refused_by_name_and_nothing_changes",
    "a message with `__STARTDELIVERTIME`":
        "client/test_ports.py::test_a_message_with_a_start_of_delivery_is_a_timed_one",
    "settings behind `mqbroker`": "unit/test_differences.py::test_a_setting_on_the_command_line_counts",
    "`ROCKETMQ_HOME` need not be set":
        "unit/config/test_command_line.py::test_rocketmq_home_says_where_access_rules_are",
    "options of Java":
        "unit/cli/test_mq_programs.py::test_system_properties_of_java_count_where_rocketmq_reads_them",
    "`useTLS`, pools": "unit/test_differences.py::test_what_has_no_effect_is_said_to_have_none",
    "`haListenPort` is used": "unit/test_differences.py::test_the_ha_port_is_the_one_that_is_set",
    "`bindAddress`": "unit/test_differences.py::test_keys_of_5_that_can_be_set_can_be_set",
}  # fmt: skip
"""By how a row begins: the test that would fail if it were not true any more."""


def rows() -> list[tuple[str, str]]:
    """Ours and RocketMQ's, as the table has them."""
    table = (ROOT / "README.md").read_text().partition("| here | RocketMQ 4.9.8 |\n")[2].partition("\n\n")[0]
    return [
        (cells[1].strip(), cells[2].strip())
        for line in table.splitlines()[1:]
        if len(cells := re.split(r"(?<!\\)\|", line)) == 4
    ]


def row_of(start: str) -> tuple[str, str]:
    (found,) = [row for row in rows() if row[0].startswith(start)]
    return found


def test_every_row_has_a_test_that_keeps_it_true() -> None:
    unproved = [here for here, _ in rows() if not any(here.startswith(start) for start in PROVED_BY)]
    assert unproved == []
    for start, place in PROVED_BY.items():
        assert row_of(start)
        path, _, name = place.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(), place


def test_every_key_with_another_default_stands_in_the_table() -> None:
    ours = effective_properties(BrokerConfig(), StoreConfig(), ServerConfig())
    named = " ".join(here for here, _ in rows())
    different = [
        key.name
        for key in known_keys().values()
        if key.is_of_4_9
        and key.owner in ServerRole.BROKER.classes
        and key.default is not None
        and not key.default.startswith("$")
        and ours.get(key.name, key.default) != key.default
    ]
    assert different == ["enablePropertyFilter"]
    assert all(f"`{name}`" in named for name in different)
    name_servers = effective_properties(NamesrvConfig(), role=ServerRole.NAMESRV)
    for key in known_keys().values():
        if key.is_of_4_9 and key.owner == "NamesrvConfig" and not (key.default or "$").startswith("$"):
            assert name_servers[key.name] == key.default


def test_sql_filters_are_on() -> None:
    assert row_of("`enablePropertyFilter` is on")[1] == "off"
    assert BrokerConfig().property_filter_enable


def test_a_value_that_does_not_parse_is_an_error() -> None:
    assert row_of("a value that does not parse is an error")
    with pytest.raises(ConfigError):
        read_config(None, command_line=parse_words(["brokerId=one"]))


def test_timers_reach_as_far_as_the_table_says() -> None:
    here, _ = row_of("timers as in 5.x")
    assert StoreConfig().timer_delay_s_max == int(re.findall(r"= (\d+) days", here)[0]) * 86_400
    assert BrokerConfig().recall_enable


def test_the_ha_port_is_the_one_that_is_set() -> None:
    assert row_of("`haListenPort` is used when it is set")
    assert read_config(None, command_line=parse_words(["haListenPort=7", "listenPort=20"])).store.ha_port == 7
    assert read_config(None, command_line=parse_words(["listenPort=20"])).store.ha_port == 21


def test_keys_of_5_that_can_be_set_can_be_set() -> None:
    here, _ = row_of("`bindAddress`")
    for key, text in (
        ("bindAddress", "::1"),
        ("diskSpaceWarningLevelRatio", "80"),
        ("diskSpaceCleanForciblyRatio", "70"),
    ):
        assert f"`{key}`" in here
        assert (
            read_config(None, command_line=parse_words([f"{key}={text}"])).effective_properties()[key] == text
        )


def test_what_has_no_effect_is_said_to_have_none() -> None:
    assert row_of("`useTLS`, pools of threads")
    assert {"useTLS", "sendMessageThreadPoolNums", "transientStorePoolEnable"} <= set(NO_EFFECT)


def test_a_setting_on_the_command_line_counts() -> None:
    here, _ = row_of("settings behind `mqbroker`")
    assert "`autoCreateTopicEnable=true`" in here.replace("(", "").replace(")", "")
    settings = read_config(
        None, command_line=parse_words(["autoCreateTopicEnable=false", "--listenPort", "9877"])
    )
    assert not settings.broker.auto_create_topic_enable
    assert settings.server.listen_port == 9877
