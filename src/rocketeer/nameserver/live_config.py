"""The name server's settings while it runs: read (319) and changed (318) under RocketMQ's keys.

A change is all or nothing: every key is known and every value fits, or nothing is changed. It is written to
`configStorePath` first, so that the next start knows it too.
"""

import asyncio
import dataclasses
from collections.abc import Mapping

from rocketeer.config import NamesrvConfig
from rocketeer.config.changing import check_change, with_changes
from rocketeer.config.properties import properties_text
from rocketeer.config.settings import ServerRole, effective_properties
from rocketeer.errors import ConfigError, StoreError
from rocketeer.observe.log_lines import set_log_level
from rocketeer.store.table_file import save_table
from rocketeer.threads import finish_in_thread

LOCKED_KEYS = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})
"""Where the name server's own files are is not for the network to say; `configBlackList` names more."""


_TEXT_CHARS_MAX = 128 << 10


class NameServerLiveConfig:
    def __init__(self, config: NamesrvConfig, extras: Mapping[str, str] | None = None) -> None:
        self.value = config
        self._extras = dict(extras or {})
        """Keys that are RocketMQ's and that nothing here reads; kept for those who ask."""
        self._turn = asyncio.Lock()

    def properties(self) -> dict[str, str]:
        return effective_properties(self.value, role=ServerRole.NAMESRV, extras=self._extras)

    def is_locked(self, key: str) -> bool:
        return key in LOCKED_KEYS or key in self.value.config_black_list.split(";")

    def check(self, changes: Mapping[str, str]) -> None:
        """ConfigError for what `update` would refuse now."""
        changed(self.value, self._extras, changes)

    async def update(self, changes: Mapping[str, str]) -> None:
        """Change some keys; ConfigError names the one that cannot be, StoreError says the disk refuses."""
        async with self._turn:
            config, extras = changed(self.value, self._extras, changes)
            text = properties_text(effective_properties(config, role=ServerRole.NAMESRV, extras=extras))
            if len(text) > _TEXT_CHARS_MAX:
                raise ConfigError(
                    f"all settings together have {len(text)} characters, more than {_TEXT_CHARS_MAX}"
                )
            try:
                await finish_in_thread(save_table, config.config_path, text)
            except OSError as error:
                raise StoreError(f"cannot write {config.config_path}: {error.strerror or error}") from error
            self.value, self._extras = config, extras
            set_log_level(config.log_level)


def changed(
    config: NamesrvConfig, extras: Mapping[str, str], changes: Mapping[str, str]
) -> tuple[NamesrvConfig, dict[str, str]]:
    """The settings with the changes made; raises ConfigError naming the first key that cannot be."""
    fields = {
        item.metadata["java"]
        for each in (config, config.server)
        for item in dataclasses.fields(each)
        if "java" in item.metadata
    }
    for name, text in changes.items():
        _check(name, text, is_read=name in fields)
    server = with_changes(config.server, changes, ServerRole.NAMESRV)
    others = {name: text for name, text in changes.items() if name not in fields}
    ours = dataclasses.replace(with_changes(config, changes, ServerRole.NAMESRV), server=server)
    return ours, {**extras, **others}


def _check(name: str, text: str, *, is_read: bool) -> None:
    key = check_change(name, text, ServerRole.NAMESRV)
    if key.since == "ours" and not is_read:
        raise ConfigError(f"{name} is read at the start; it cannot be changed while the name server runs")
    if not key.is_of_4_9 and not is_read:
        raise ConfigError(f"{name} is a key of RocketMQ 5 and has no effect here")
