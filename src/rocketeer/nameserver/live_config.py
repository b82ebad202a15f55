"""The name server's settings while it runs: read (319) and changed (318) under RocketMQ's keys.

A change is all or nothing: every key is known and every value fits, or nothing is changed. It is written to
`configStorePath` first, so that the next start knows it too.
"""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

from rocketeer.config import NamesrvConfig
from rocketeer.config.keys import NAMESRV_CLASSES, find_key, nearest_key
from rocketeer.config.properties import properties_text
from rocketeer.config.settings import Role, effective_properties
from rocketeer.errors import ConfigError, StoreError
from rocketeer.store.table_file import save_table

LOCKED_KEYS = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})
"""Where the name server's own files are is not for the network to say; `configBlackList` names more."""


class LiveConfig:
    def __init__(self, config: NamesrvConfig, extras: Mapping[str, str] | None = None) -> None:
        self._config = config
        self._extras = dict(extras or {})
        """Keys that are RocketMQ's and that nothing here reads; kept for those who ask."""
        self._turn = asyncio.Lock()

    @property
    def value(self) -> NamesrvConfig:
        return self._config

    def properties(self) -> dict[str, str]:
        return effective_properties(self._config, role=Role.NAMESRV, extras=self._extras)

    def is_locked(self, key: str) -> bool:
        return key in LOCKED_KEYS or key in self.properties().get("configBlackList", "").split(";")

    async def update(self, changes: Mapping[str, str]) -> None:
        """Change some keys; ConfigError names the one that cannot be, StoreError says the disk refuses."""
        async with self._turn:
            config, extras = changed(self._config, self._extras, changes)
            text = properties_text(effective_properties(config, role=Role.NAMESRV, extras=extras))
            try:
                await asyncio.to_thread(save_table, config.config_path, text)
            except OSError as error:
                raise StoreError(f"cannot write {config.config_path}: {error.strerror or error}") from error
            self._config, self._extras = config, extras


def changed(
    config: NamesrvConfig, extras: Mapping[str, str], changes: Mapping[str, str]
) -> tuple[NamesrvConfig, dict[str, str]]:
    """The settings with the changes made; raises ConfigError naming the first key that cannot be."""
    fields = {item.metadata.get("java"): item for item in dataclasses.fields(config)}
    server_fields = {item.metadata.get("java"): item for item in dataclasses.fields(config.server)}
    ours: dict[str, Any] = {}
    servers: dict[str, Any] = {}
    others = dict(extras)
    for name, text in changes.items():
        _check(name, text, is_read=name in fields or name in server_fields)
        if name in fields:
            ours[fields[name].name] = _value(name, text, fields[name], getattr(config, fields[name].name))
        elif name in server_fields:
            item = server_fields[name]
            servers[item.name] = _value(name, text, item, getattr(config.server, item.name))
        else:
            others[name] = text
    server = dataclasses.replace(config.server, **servers)
    return dataclasses.replace(config, server=server, **ours), others


def _check(name: str, text: str, *, is_read: bool) -> None:
    key = find_key(name, NAMESRV_CLASSES)
    if key is None:
        meant = nearest_key(name, NAMESRV_CLASSES)
        raise ConfigError(f"unknown key {name}" + (f"; did you mean {meant}?" if meant else ""))
    if not key.is_of_4_9 and not is_read:
        raise ConfigError(f"{name} is a key of RocketMQ 5 and has no effect here")
    if not key.accepts(text):
        raise ConfigError(f"{name}={text}: expected {key.expected}")


def _value(name: str, text: str, item: "dataclasses.Field[Any]", now: object) -> object:
    if isinstance(now, bool):
        return text.lower() == "true"
    if isinstance(now, int):
        number = int(text)
        least, most = item.metadata.get("least", number), item.metadata.get("most", number)
        if not least <= number <= most:
            raise ConfigError(
                f"{name}={text}: expected a whole number of at least {least} and at most {most}"
            )
        return number
    assert isinstance(now, str), "the other types are paths, whose keys are locked"
    return text
