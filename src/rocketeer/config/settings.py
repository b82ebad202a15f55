"""What is known before a server starts, and how it reads back in RocketMQ's own keys and texts."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from rocketeer.config.group import ReplicaGroupConfig
from rocketeer.config.keys import BROKER_CLASSES, NAMESRV_CLASSES, ConfigKey, known_keys
from rocketeer.config.limits import BrokerLimits, NamesrvLimits, ServerLimits
from rocketeer.config.values import (
    BROKER_PORT,
    NAMESRV_PORT,
    BrokerConfig,
    NamesrvConfig,
    ServerConfig,
    StoreConfig,
)

AnyConfig = (
    BrokerConfig
    | StoreConfig
    | ServerConfig
    | NamesrvConfig
    | BrokerLimits
    | ServerLimits
    | NamesrvLimits
    | ReplicaGroupConfig
)


class ServerRole(StrEnum):
    """Whose file it is: the two servers share the names of some keys."""

    BROKER = "broker"
    NAMESRV = "name server"

    @property
    def classes(self) -> tuple[str, ...]:
        return BROKER_CLASSES if self is ServerRole.BROKER else NAMESRV_CLASSES

    @property
    def default_port(self) -> int:
        return BROKER_PORT if self is ServerRole.BROKER else NAMESRV_PORT


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All there is to know before a server starts; `warnings` are for the person who starts it."""

    role: ServerRole
    broker: BrokerConfig
    store: StoreConfig
    server: ServerConfig
    namesrv: NamesrvConfig
    extras: Mapping[str, str] = field(default_factory=dict)
    """Keys of the file that no part of the engine reads, as they were written."""
    warnings: tuple[str, ...] = ()
    path: Path | None = None

    def effective_properties(self) -> dict[str, str]:
        """Every key with the value in force, in Java's spelling; keys without a value are left out."""
        if self.role is ServerRole.NAMESRV:
            return effective_properties(self.namesrv, role=self.role, extras=self.extras)
        return effective_properties(self.broker, self.store, self.server, extras=self.extras)


def effective_properties(
    *configs: AnyConfig,
    role: ServerRole = ServerRole.BROKER,
    extras: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What getBrokerConfig (or getNamesrvConfig) answers for these values."""
    texts = {
        key.name: text
        for key in known_keys().values()
        if key.owner in role.classes and key.is_of_4_9 and (text := _default_text(key)) is not None
    }
    for config in configs:
        for value in _with_nested(config):
            for item in dataclasses.fields(value):
                text = _java_text(getattr(value, item.name))
                if text is not None and "java" in item.metadata:
                    texts[item.metadata["java"]] = text
    return {**texts, **(extras or {})}


def _with_nested(config: AnyConfig) -> Iterator[AnyConfig]:
    yield config
    if isinstance(config, NamesrvConfig):
        yield from _with_nested(config.server)
    if isinstance(config, BrokerConfig | ServerConfig | NamesrvConfig):
        yield config.limits
    if isinstance(config, BrokerConfig):
        yield config.group


def _default_text(key: ConfigKey) -> str | None:
    """Java's own default; the ones that depend on the machine come from our values instead."""
    return None if key.default is not None and key.default.startswith("$") else key.default


def _java_text(value: object) -> str | None:
    if value is None or value == ():
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ";".join(value)
    return str(value)
