"""The broker's settings while it runs: read (26) and changed (25) under RocketMQ's keys.

Whoever can follow a change says so with a `ConfigChange`; every other key is refused by name. A change is written to
the file first, so that the next start knows it too: the file the broker was started with, else
<store>/config/broker.properties, which then holds changes only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping
from pathlib import Path
from typing import Final

from rocketeer.broker.feature import ConfigChange
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, ServerConfig, ServerRole, StoreConfig
from rocketeer.config.changing import changed_text, check_change, with_changes
from rocketeer.config.keys import find_key
from rocketeer.config.properties import load_properties
from rocketeer.config.settings import effective_properties
from rocketeer.errors import ConfigError, RequestRefused, StoreError
from rocketeer.model.data_version import DataVersion
from rocketeer.protocol.bodies.data_version import encode_data_version
from rocketeer.protocol.bodies.properties import decode_settings, encode_settings
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.admin import GetBrokerConfigReplyHeader
from rocketeer.remoting.router import Connection, Handler
from rocketeer.store.table_file import save_table
from rocketeer.threads import finish_in_thread

log = logging.getLogger(__name__)

FILE_NAME: Final = "broker.properties"
LOCKED_KEYS: Final = frozenset({"configBlackList", "brokerConfigPath"})


class LiveConfig:
    """The settings in force now, and the only way to change them."""

    def __init__(
        self,
        broker: BrokerConfig,
        store: StoreConfig,
        server: ServerConfig,
        *,
        path: Path,
        extras: Mapping[str, str],
        clock: Clock,
    ) -> None:
        """`extras`: keys of the file that nothing here reads, for those who ask for them."""
        self._broker = broker
        self._store = store
        self._server = server
        self._path = path
        self._extras = extras
        self._clock = clock
        self._version = DataVersion(clock.now_ms(), 0)
        self._changes: dict[str, list[ConfigChange]] = {}
        self._turn = asyncio.Lock()

    def add(self, changes: Iterable[ConfigChange]) -> None:
        """Register what applies changes of these keys."""
        for change in changes:
            for key in change.keys:
                assert find_key(key, ServerRole.BROKER.classes), f"no key {key}"
                self._changes.setdefault(key, []).append(change)

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.GET_BROKER_CONFIG: self.get, RequestCode.UPDATE_BROKER_CONFIG: self.update}

    def properties(self) -> dict[str, str]:
        return effective_properties(self._broker, self._store, self._server, extras=self._extras)

    def get(self, command: Command, connection: Connection) -> Command:
        version = GetBrokerConfigReplyHeader(version=encode_data_version(self._version).decode())
        return reply(command, ext=version, body=encode_settings(self.properties()))

    def update(self, command: Command, connection: Connection) -> Awaitable[Command]:
        """Handle UPDATE_BROKER_CONFIG: what cannot be changed is refused now, before there is something to await."""
        try:
            changes = decode_settings(command.body)
            locked = LOCKED_KEYS | set(self._broker.config_black_list.split(";"))
            if not locked.isdisjoint(changes):
                raise RequestRefused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
            self._changed(changes)
        except ConfigError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return self._update(command, changes, connection.remote)

    async def _update(self, command: Command, changes: Mapping[str, str], remote: str) -> Command:
        try:
            if changes:
                await self._change(changes)
                log.info("settings changed remote=%s changes=%s", remote, changes)
        except ConfigError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return reply(command)

    async def _change(self, changes: Mapping[str, str]) -> None:
        async with self._turn:
            broker, store = self._changed(changes)
            try:
                await finish_in_thread(_rewrite, self._path, changes)
            except OSError as error:
                raise StoreError(f"cannot write {self._path}: {error.strerror or error}") from error
            self._broker, self._store = broker, store
            self._version = self._version.next(self._clock.now_ms())
            for change in dict.fromkeys(each for key in changes for each in self._changes[key]):
                change.apply(broker, store)

    def _changed(self, changes: Mapping[str, str]) -> tuple[BrokerConfig, StoreConfig]:
        for key, text in changes.items():
            check_change(key, text, ServerRole.BROKER)
            if key not in self._changes:
                raise ConfigError(
                    f"{key} cannot be changed while the broker runs: change it in {self._path} and start again"
                )
        return (
            with_changes(self._broker, changes, ServerRole.BROKER),
            with_changes(self._store, changes, ServerRole.BROKER),
        )


def saved_changes(path: Path) -> dict[str, str]:
    """What was changed before, for a broker that was started without a file."""
    return {entry.key: entry.value for entry in load_properties(path)} if path.exists() else {}


def _rewrite(path: Path, changes: Mapping[str, str]) -> None:
    text = path.read_text("utf-8") if path.exists() else ""
    save_table(path, changed_text(text, changes))
