"""A consumer that could never work is refused when it is made."""

from dataclasses import fields
from typing import Any

import pytest

from rocketeer.client.aio.lite_pull_consumer import LitePullConsumer
from rocketeer.client.aio.pull_consumer import PullConsumer
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.config import ConsumerConfig, ProducerConfig
from rocketeer.client.core.consumer_rules import checked
from rocketeer.errors import ConfigError


def test_the_defaults_are_fine() -> None:
    config = ConsumerConfig("G")
    assert checked(config) is config


POSITIVE = [
    "concurrency", "consume_batch", "pull_batch", "pull_timeout_s", "queue_messages_max", "queue_bytes_max", "span_max",
    "consume_timeout_s", "commit_interval_s", "rebalance_s", "lock_renew_s", "lock_expire_s",
    "route_poll_s", "heartbeat_s", "call_timeout_s", "close_timeout_s",
]  # fmt: skip
NOT_NEGATIVE = ["pull_interval_s", "pull_hold_s", "suspend_s", "start_timeout_s"]
OR_MINUS_ONE = ["topic_messages_max", "topic_bytes_max", "retries"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(({name: value}, f"{name}.* is {value}: .* more than 0") for name in POSITIVE for value in (0, -1)),
        *(({name: -1}, f"{name}.* is -1: .* not be negative") for name in NOT_NEGATIVE),
        *(({name: -2}, f"{name}.* is -2: -1 leaves it") for name in OR_MINUS_ONE),
        ({"consume_batch": 1025}, "at most 1024"),
        ({"pull_batch": 1025}, "at most 1024"),
        ({"pull_hold_s": 30.0}, "pull_timeout_s.*wait longer"),
        ({"lock_renew_s": 30.0}, "lock_expire_s.*run out"),
        ({"consume_timestamp": "yesterday"}, "consume_timestamp 'yesterday'.*yyyyMMddHHmmss"),
        ({"consume_timestamp": "2025013123"}, "consume_timestamp '2025013123'.*yyyyMMddHHmmss"),
    ],
)
@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer, PullConsumer])
def test_what_cannot_be_is_named(kind: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        kind("G", **options)


WRONG: dict[Any, tuple[Any, ...]] = {
    int: ("20", 1.5, None, True),
    float: ("3", None, True, float("nan"), float("inf")),
    bool: ("true", 1, None),
}


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        *(
            (config, field.name, value)
            for config in (ProducerConfig, ConsumerConfig)
            for field in fields(config)
            for value in WRONG.get(field.type, ())
        ),
        (ConsumerConfig, "message_model", "CLUSTERING"),
        (ConsumerConfig, "consume_from", 0),
        (ConsumerConfig, "consume_timestamp", 20250131235959),
        (ConsumerConfig, "nameserver", 9876),
        (ConsumerConfig, "nameserver", [b"127.0.0.1:9876"]),
        (ConsumerConfig, "namespace", b"shop"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(config: Any, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name} is .*: it must be "):
        config("G", **{name: value})


@pytest.mark.parametrize(
    "name",
    [
        "send_timeout_s",
        "message_bytes_max",
        "default_topic_queues",
        "in_flight_max",
        "in_flight_bytes_max",
        "oneway_in_flight_max",
    ],
)
def test_a_producer_that_could_never_send_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0: it must be more than 0"):
        ProducerConfig("G", **{name: 0})  # type: ignore[arg-type]


def test_no_option_of_a_consumer_goes_unchecked() -> None:
    """Who adds an option adds its rule; texts, choices and switches are checked by their kind."""
    numbers = {field.name for field in fields(ConsumerConfig) if field.type in (int, float)}
    assert numbers == {*POSITIVE, *NOT_NEGATIVE, *OR_MINUS_ONE}
