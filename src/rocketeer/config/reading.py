"""From a RocketMQ configuration file to the values the engine runs by.

file, command line -> entries (properties.py, command_line.py) -> checked against the table (keys.py) -> Settings

Java ignores a value it cannot parse and starts with the default; here it is an error, because a broker
that runs with another setting than the one written down is worse than one that does not start.
"""

import dataclasses
import os
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rocketeer.config.command_line import ON_COMMAND_LINE
from rocketeer.config.group import ReplicaGroupConfig
from rocketeer.config.keys import OLD_SPELLINGS, find_key, nearest_key
from rocketeer.config.limits import BrokerLimits, NamesrvLimits, ServerLimits
from rocketeer.config.properties import PropertyEntry, load_properties
from rocketeer.config.settings import ServerRole, Settings
from rocketeer.config.values import BrokerConfig, BrokerRole, NamesrvConfig, ServerConfig, StoreConfig
from rocketeer.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_CONFIGS: tuple[type["DataclassInstance"], ...] = (
    *(BrokerConfig, StoreConfig, ServerConfig, NamesrvConfig, ReplicaGroupConfig),
    *(BrokerLimits, ServerLimits, NamesrvLimits),
)
KEYS_WE_READ = frozenset(
    item.metadata["java"]
    for config in _CONFIGS
    for item in dataclasses.fields(config)
    if "java" in item.metadata
)

T = TypeVar("T", bound="DataclassInstance")

_EXPANDED_BY_SHELLS = re.compile(r"^~|\$\{|\$[A-Z]")


def read_config(
    path: Path | None,
    role: ServerRole = ServerRole.BROKER,
    *,
    command_line: Sequence[PropertyEntry] = (),
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """The settings of a file, or the defaults without one; what stands on the command line goes before both.

    A ConfigError names the file, the line, the key, its value and what was expected.
    """
    entries = load_properties(path) if path is not None else []
    return _Reader(role, str(path)).settings([*entries, *command_line], path, environment)


def parse_addresses(text: str) -> tuple[str, ...]:
    """The addresses of a list such as "10.0.0.1:9876;10.0.0.2:9876"; raises ConfigError without a key."""
    addresses = tuple(part.strip() for part in text.split(";") if part.strip())
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or "," in address or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"{address!r} is not host:port; write a list as 10.0.0.1:9876;10.0.0.2:9876")
    if not addresses:
        raise ConfigError("no address given; write host:port, for example 127.0.0.1:9876")
    return addresses


class _Reader:
    """Turns the entries of one file into Settings, collecting warnings on the way."""

    def __init__(self, role: ServerRole, source: str) -> None:
        self._role = role
        self._source = source
        self._warnings: list[str] = []
        self._entries: dict[str, PropertyEntry] = {}
        self._used: set[str] = set()

    def settings(
        self, entries: Iterable[PropertyEntry], path: Path | None, environment: Mapping[str, str]
    ) -> Settings:
        for entry in entries:
            self._admit(entry)
        server = self._fill(
            ServerConfig(listen_port=self._role.default_port, limits=self._fill(ServerLimits()))
        )
        store = self._fill(StoreConfig(ha_port=server.listen_port + 1))
        addresses = self._addresses_of(environment)
        broker = self._fill(
            BrokerConfig(
                namesrv_addresses=addresses, limits=self._fill(BrokerLimits()), group=self._group(store)
            )
        )
        namesrv = self._fill(NamesrvConfig(limits=self._fill(NamesrvLimits())))
        home = broker.rocketmq_home if self._role is ServerRole.BROKER else namesrv.rocketmq_home
        server = dataclasses.replace(server, home=home)
        namesrv = dataclasses.replace(namesrv, server=server)
        if self._role is ServerRole.NAMESRV and path is not None:
            # Changes made at run time go back to the file they were read from.
            namesrv = dataclasses.replace(namesrv, config_path=path)
        return Settings(
            role=self._role,
            broker=self._identified(broker, store),
            store=store,
            server=server,
            namesrv=namesrv,
            extras={key: entry.value for key, entry in self._entries.items() if key not in self._used},
            warnings=tuple(self._warnings),
            path=path,
        )

    def _admit(self, entry: PropertyEntry) -> None:
        entry = entry._replace(value=entry.value.rstrip())
        if entry.key in OLD_SPELLINGS:
            self._warn(entry, f"{entry.key} is an old name of {OLD_SPELLINGS[entry.key]}, and counts as that")
            entry = entry._replace(key=OLD_SPELLINGS[entry.key])
        if entry.key in self._entries and entry.line != ON_COMMAND_LINE:
            first = self._entries[entry.key].line
            self._warn(entry, f"{entry.key} stands on line {first} too; this one counts")
        self._entries[entry.key] = entry
        key = find_key(entry.key, self._role.classes)
        if key is None:
            if entry.line == ON_COMMAND_LINE:  # somebody types it now, and sees the answer
                raise ConfigError(f"{self._place(entry)}: {self._unknown_key(entry.key)}")
            self._warn(entry, self._unknown_key(entry.key, " is ignored"))
            return
        if not key.is_of_4_9 and entry.key not in KEYS_WE_READ:
            self._warn(entry, f"{entry.key} is a key of RocketMQ 5 and has no effect here")
        if not key.accepts(entry.value):
            raise self._bad(entry, key.expected)

    def _unknown_key(self, name: str, consequence: str = "") -> str:
        other = ServerRole.NAMESRV if self._role is ServerRole.BROKER else ServerRole.BROKER
        if find_key(name, other.classes):
            return f"{name} is a key of a {other}; it has no effect on a {self._role}"
        meant = nearest_key(name, self._role.classes)
        return f"unknown key {name}{consequence}" + (f"; did you mean {meant}?" if meant else "")

    def _fill(self, config: T) -> T:
        """The config with every field whose key the file sets."""
        hints = typing.get_type_hints(type(config))
        changes: dict[str, Any] = {}
        for item in dataclasses.fields(config):
            entry = self._entries.get(item.metadata.get("java", ""))
            if entry is not None and find_key(entry.key, self._role.classes):
                changes[item.name] = self._value(entry, hints[item.name], item.metadata)
                self._used.add(entry.key)
        return dataclasses.replace(config, **changes)

    def _value(self, entry: PropertyEntry, hint: Any, metadata: Mapping[str, Any]) -> object:
        """The entry as the field's type; its Java type has been checked already."""
        text = entry.value
        if isinstance(hint, types.UnionType):  # "X | None": a key that is written has a value
            hint = hint.__args__[0]
        if hint is bool:
            return text.lower() == "true"
        if hint is int:
            number = int(text)
            least, most = metadata.get("least", number), metadata.get("most", number)
            if not least <= number <= most:
                raise self._bad(entry, _range_text(metadata))
            return number
        if hint is Path:
            if not text:
                raise self._bad(entry, "a path")
            if _EXPANDED_BY_SHELLS.search(text):
                self._warn(entry, f"{entry.key}={text} is taken as it stands: nothing in it is expanded")
            return Path(text)
        if hint == tuple[str, ...]:
            try:
                return parse_addresses(text)
            except ConfigError as error:
                raise ConfigError(f"{self._place(entry)}: {entry.key}: {error}") from None
        if "pattern" in metadata and not re.fullmatch(metadata["pattern"], text):
            raise self._bad(entry, metadata["expected"])
        return hint(text)

    def _group(self, store: StoreConfig) -> ReplicaGroupConfig:
        group = self._fill(ReplicaGroupConfig())
        if not group.enabled:
            return group
        if group.member_id <= 0:
            raise ConfigError(f"{self._source}: groupEtcd is set: expected groupMemberId as well, from 1 on")
        if group.min_in_sync > group.members:
            raise ConfigError(
                f"{self._source}: groupMinInSync={group.min_in_sync}: expected no more than groupMembers, "
                f"which is {group.members}"
            )
        if "brokerRole" in self._entries:
            entry = self._entries["brokerRole"]
            self._warn(entry, "brokerRole has no effect in a group: its members elect their leader")
        return group

    def _identified(self, broker: BrokerConfig, store: StoreConfig) -> BrokerConfig:
        """RocketMQ's rule: a master's id is 0, a slave's is not."""
        entry = self._entries.get("brokerId")
        if store.broker_role is BrokerRole.SLAVE:
            if broker.broker_id <= 0:
                where = self._place(entry) if entry else self._source
                raise ConfigError(
                    f"{where}: brokerId={broker.broker_id} with brokerRole=SLAVE:"
                    " expected a number above 0 for a slave"
                )
            return broker
        if broker.broker_id != 0 and entry:
            self._warn(entry, f"brokerId={broker.broker_id} becomes 0: brokerRole is {store.broker_role}")
        return dataclasses.replace(broker, broker_id=0)

    def _addresses_of(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        text = environment.get("NAMESRV_ADDR", "").strip()
        if not text or "namesrvAddr" in self._entries:
            return ()
        try:
            return parse_addresses(text)
        except ConfigError as error:
            raise ConfigError(f"environment variable NAMESRV_ADDR: {error}") from None

    def _warn(self, entry: PropertyEntry, text: str) -> None:
        self._warnings.append(f"{self._place(entry)}: {text}")

    def _place(self, entry: PropertyEntry) -> str:
        return "command line" if entry.line == ON_COMMAND_LINE else f"{self._source}, line {entry.line}"

    def _bad(self, entry: PropertyEntry, expected: str) -> ConfigError:
        return ConfigError(f"{self._place(entry)}: {entry.key}={entry.value}: expected {expected}")


class ValueReader(_Reader):
    """Values that come one by one, not from a file."""

    def __init__(self, role: ServerRole) -> None:
        super().__init__(role, "")

    def changed(self, config: T, changes: Mapping[str, str]) -> T:
        """The config with the fields of these keys changed; ConfigError for a value that does not fit."""
        self._entries = {key: PropertyEntry(key, text, 0) for key, text in changes.items()}
        return self._fill(config)

    def _bad(self, entry: PropertyEntry, expected: str) -> ConfigError:
        return ConfigError(f"{entry.key}={entry.value}: expected {expected}")


def _range_text(metadata: Mapping[str, Any]) -> str:
    if "most" in metadata:
        return f"a whole number from {metadata['least']} to {metadata['most']}"
    return f"a whole number, at least {metadata['least']}"
