from dataclasses import fields

import pytest

from rocketeer.client.core.config import (
    ClientConfig,
    ClientOptions,
    ConsumerConfig,
    ConsumerOptions,
    ProducerConfig,
    ProducerOptions,
    client_id,
)
from rocketeer.errors import ConfigError, InvalidGroup


@pytest.mark.parametrize(
    ("config", "options"),
    [(ClientConfig, ClientOptions), (ProducerConfig, ProducerOptions), (ConsumerConfig, ConsumerOptions)],
)
def test_every_field_is_an_option_and_every_option_a_field(config: type, options: type) -> None:
    declared = {field.name: field.type for field in fields(config) if field.name != "group"}
    assert set(declared) == set(options.__annotations__)


def test_the_client_id_is_the_address_and_the_instance() -> None:
    named = ClientConfig("g", instance_name="billing-1")
    assert client_id(named, ip="10.0.0.1", pid=7, nanos=9) == "10.0.0.1@billing-1"
    in_unit = ClientConfig("g", instance_name="b", unit_name="west", client_ip="10.9.9.9")
    assert client_id(in_unit, ip="10.0.0.1", pid=7, nanos=9) == "10.9.9.9@b@west"


def test_clients_without_a_name_never_share_an_id() -> None:
    config = ClientConfig("g")
    assert client_id(config, ip="10.0.0.1", pid=7, nanos=9) == "10.0.0.1@7#9"
    assert client_id(config, ip="10.0.0.1", pid=7, nanos=9, keep_default=True) == "10.0.0.1@DEFAULT"


@pytest.mark.parametrize("group", ["", " ", "a b", "x" * 256, "DEFAULT_PRODUCER", "grün"])
def test_a_group_no_broker_would_take_is_refused(group: str) -> None:
    with pytest.raises(InvalidGroup):
        ProducerConfig(group)


def test_a_senseless_number_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="send_timeout_s"):
        ProducerConfig("g", send_timeout_s=0)
    with pytest.raises(ConfigError, match="retries"):
        ProducerConfig("g", retries=-1)


def test_names_go_into_the_namespace() -> None:
    config = ProducerConfig("g", namespace="shop")
    assert (config.full_group, config.full_topic("orders")) == ("shop%g", "shop%orders")
