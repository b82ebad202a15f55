"""Settings that RocketMQ knows and this engine does not act on yet: said at start, never ignored in silence."""

import dataclasses

from rocketeer.config.settings import Settings
from rocketeer.config.values import BrokerRole
from rocketeer.errors import ConfigError

NO_EFFECT = frozenset(
    {
        "accept_sends_from_ms", "consumer_fall_behind_bytes_max", "disable_slow_consumers", "disk_fall_recorded",
        "flush_delay_offset_ms",
        "flush_least_pages", "flush_queue_least_pages", "flush_thorough_ms", "ha_fall_behind_bytes_max",
        "ha_heartbeat_ms", "ha_housekeeping_ms", "ha_master_address", "ha_transfer_bytes",
        "pull_queue_max", "receive_buffer_bytes",
        "redelete_hanged_interval_ms", "delete_queue_interval_ms", "send_buffer_bytes", "send_queue_max",
        "slave_read_enable", "slave_timeout_ms",
    }
)  # fmt: skip
"""Fields of the broker's settings that no part reads; whoever begins to read one takes it off this list."""


def refuse_unavailable(settings: Settings) -> None:
    """Raise ConfigError for what would be dangerous to ignore: somebody relies on it."""
    if settings.broker.acl_enable:
        raise ConfigError(
            "aclEnable=true: access control is not available yet, the broker would be open to all"
        )
    role = settings.store.broker_role
    if role is not BrokerRole.ASYNC_MASTER:
        raise ConfigError(f"brokerRole={role}: replication is not available yet, only ASYNC_MASTER is")
    if settings.extras.get("enableDLegerCommitLog", "").strip().lower() == "true":
        raise ConfigError("enableDLegerCommitLog=true: DLedger is not available")


def without_effect(settings: Settings) -> list[str]:
    """RocketMQ's keys of the settings that were changed and change nothing here."""
    return [
        item.metadata["java"]
        for config in (settings.broker, settings.store, settings.server)
        for item in dataclasses.fields(config)
        if item.name in NO_EFFECT and getattr(config, item.name) != item.default
    ]
