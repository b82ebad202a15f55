"""A consumer that could never work is refused when it is made."""

from typing import Any

import pytest

from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.consumer_rules import checked
from rocketeer.errors import ConfigError


def test_the_defaults_are_fine() -> None:
    config = ConsumerConfig("G")
    assert checked(config) is config


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency of consumer 'G' is 0"),
        ({"consume_batch": 1025}, "at most 1024"),
        ({"pull_batch": 0}, "pull_batch"),
        ({"retries": -2}, "-1 leaves it"),
        ({"suspend_s": -0.1}, "suspend_s"),
        ({"pull_hold_s": 30.0}, "pull_timeout_s.*wait longer"),
        ({"lock_renew_s": 30.0}, "lock_expire_s.*run out"),
    ],
)
def test_what_cannot_be_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        PushConsumer("G", **options)
