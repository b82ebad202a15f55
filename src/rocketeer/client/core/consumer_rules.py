"""What a consumer's configuration must obey, said when it is made rather than by a consumer that stands still."""

from datetime import datetime
from typing import Final

from rocketeer.client.core.config import ConsumerConfig
from rocketeer.errors import ConfigError

BATCH_MAX: Final = 1024
TIMESTAMP_FORMAT: Final = "%Y%m%d%H%M%S"
TIMESTAMP_CHARS: Final = 14
_POSITIVE: Final = (
    "concurrency",
    "consume_batch",
    "pull_batch",
    "pull_timeout_s",
    "queue_messages_max",
    "queue_bytes_max",
    "span_max",
    "consume_timeout_s",
    "commit_interval_s",
    "rebalance_s",
    "lock_renew_s",
    "lock_expire_s",
)
_NOT_NEGATIVE: Final = ("pull_interval_s", "pull_hold_s", "suspend_s", "start_timeout_s")
_OR_MINUS_ONE: Final = ("topic_messages_max", "topic_bytes_max", "retries")


def checked(config: ConsumerConfig) -> ConsumerConfig:
    """Return the configuration; raises ConfigError with the name and value that cannot be."""
    for name in _POSITIVE:
        _must(config, name, getattr(config, name) > 0, "it must be more than 0")
    for name in _NOT_NEGATIVE:
        _must(config, name, getattr(config, name) >= 0, "it must not be negative")
    for name in _OR_MINUS_ONE:
        _must(config, name, getattr(config, name) >= -1, "-1 leaves it to RocketMQ's rule")
    for name in ("consume_batch", "pull_batch"):
        _must(config, name, getattr(config, name) <= BATCH_MAX, f"it must be at most {BATCH_MAX}")
    waits = (
        f"the answer to a pull comes after pull_hold_s ({config.pull_hold_s:g}) at the latest: wait longer"
    )
    _must(config, "pull_timeout_s", config.pull_timeout_s > config.pull_hold_s, waits)
    late = f"a lock renewed every lock_renew_s ({config.lock_renew_s:g}) would run out in between"
    _must(config, "lock_expire_s", config.lock_expire_s > config.lock_renew_s, late)
    if config.consume_timestamp is not None:
        parse_timestamp(config.consume_timestamp)
    return config


def parse_timestamp(text: str) -> int:
    """Milliseconds of a local time written yyyyMMddHHmmss, as `consume_timestamp` holds it."""
    try:
        if len(text) == TIMESTAMP_CHARS:  # strptime forgives digits that are not there
            return int(datetime.strptime(text, TIMESTAMP_FORMAT).timestamp() * 1000)
    except ValueError:
        pass
    raise ConfigError(
        f"consume_timestamp {text!r} is not a time: write it as yyyyMMddHHmmss, like 20250131235959"
    )


def _must(config: ConsumerConfig, name: str, holds: bool, why: str) -> None:
    if not holds:
        raise ConfigError(f"{name} of consumer {config.group!r} is {getattr(config, name)}: {why}")
