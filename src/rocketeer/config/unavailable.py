"""Settings that RocketMQ knows and this engine does not act on yet: said at start, never ignored in silence."""

import dataclasses

from rocketeer.config.keys import find_key
from rocketeer.config.settings import AnyConfig, Role, Settings
from rocketeer.errors import ConfigError

NO_EFFECT = frozenset(
    {
        "accept_sends_from_ms", "cluster_test", "consumer_fall_behind_bytes_max",
        "delete_queue_interval_ms", "disable_slow_consumers", "disk_fall_recorded", "env_name",
        "flush_delay_offset_ms", "flush_least_pages", "flush_queue_least_pages", "flush_thorough_ms",
        "pull_queue_max", "redelete_hanged_interval_ms", "send_queue_max",
    }
)  # fmt: skip
"""Fields of the settings that no part reads; whoever begins to read one takes it off this list."""


def refuse_unavailable(settings: Settings) -> None:
    """Raise ConfigError for what would be dangerous to ignore: somebody relies on it."""
    if settings.extras.get("enableDLegerCommitLog", "").strip().lower() == "true":
        raise ConfigError("enableDLegerCommitLog=true: DLedger is not available")
    if settings.extras.get("duplicationEnable", "").strip().lower() == "true":
        raise ConfigError(
            "duplicationEnable=true: a log that others write is not available; brokerRole=SLAVE copies one"
        )


def without_effect(settings: Settings) -> list[str]:
    """RocketMQ's keys of the settings that were changed and change nothing here.

    Those we have a field for, and those that mean something to Java alone (its thread pools, its memory).
    """
    configs: tuple[AnyConfig, ...] = (settings.broker, settings.store, settings.server)
    if settings.role is Role.NAMESRV:
        configs = (settings.namesrv, settings.server)
    fields = [
        item.metadata["java"]
        for config in configs
        for item in dataclasses.fields(config)
        if item.name in NO_EFFECT and getattr(config, item.name) != item.default
    ]
    others = [(find_key(name, settings.role.classes), text) for name, text in settings.extras.items()]
    return fields + [
        key.name
        for key, text in others
        # Of keys of RocketMQ 5, and of strangers, the reading of the file has warned already.
        if key is not None and key.is_of_4_9 and text.lower() != (key.default or "").lower()
    ]
