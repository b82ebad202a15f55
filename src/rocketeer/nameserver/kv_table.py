"""Small settings by namespace and key that outlive the name server: kvConfig.json, written as RocketMQ does.

    {"configTable": {namespace: {key: value}}}

A change is written to the disk first and seen by others second: what was once answered is never lost.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocketeer.config import NamesrvLimits
from rocketeer.errors import ConfigError, StoreError
from rocketeer.remoting.limits import over_limit
from rocketeer.store.table_file import load_table, save_table
from rocketeer.threads import finish_in_thread

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
"""The namespace of order topics: topic -> `broker-a:4;broker-b:4`."""

Spaces = Mapping[str, Mapping[str, str]]


class _KvFile(msgspec.Struct):
    table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict, name="configTable")


_decoder = msgspec.json.Decoder(_KvFile)


def encode_spaces(spaces: Spaces) -> str:
    return msgspec.json.encode({"configTable": spaces}, order="sorted").decode()


def decode_spaces(text: str) -> dict[str, dict[str, str]]:
    """The namespaces of the file's text; raises ConfigError when it is not such a file."""
    try:
        return _decoder.decode(text).table
    except msgspec.DecodeError as why:
        raise ConfigError(f"not a table of namespaces, keys and values: {why}") from None


def with_value(spaces: Spaces, namespace: str, key: str, value: str) -> Spaces:
    return {**spaces, namespace: {**spaces.get(namespace, {}), key: value}}


def without_key(spaces: Spaces, namespace: str, key: str) -> Spaces:
    """The namespace stays when its last key goes: RocketMQ answers an empty list then, not "not found"."""
    if key not in spaces.get(namespace, {}):
        return spaces
    return {**spaces, namespace: {name: text for name, text in spaces[namespace].items() if name != key}}


class KvTable:
    """The namespaces and their file. Readers never wait; changes wait for the disk, one after the other."""

    def __init__(self, path: Path, limits: NamesrvLimits | None = None) -> None:
        self._path = path
        self._limits = limits or NamesrvLimits()
        self._spaces: Spaces = {}
        self._turn = asyncio.Lock()

    def load(self) -> None:
        """Read the file, or its .bak if it is broken; when neither can be read that is an error."""
        text = load_table(self._path, accept=_is_readable)
        if text is not None:
            self._spaces = decode_spaces(text)
        elif self._path.exists():
            raise ConfigError(
                f"cannot read {self._path}: neither it nor its .bak is a key-value table; move it away"
            )

    def get(self, namespace: str, key: str) -> str | None:
        return self._spaces.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        return self._spaces.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        async with self._turn:
            spaces = with_value(self._spaces, namespace, key, value)
            self._check(spaces)
            await self._save(spaces)

    def _check(self, spaces: Spaces) -> None:
        """The whole table is written for every change: it must stay small."""
        limits = self._limits
        if len(spaces) + sum(map(len, spaces.values())) > limits.kv_entries:
            raise over_limit("namespaces and their settings", "limitKvEntries", limits.kv_entries)
        size = sum(map(len, spaces))
        size += sum(len(key) + len(value) for table in spaces.values() for key, value in table.items())
        if size > limits.kv_bytes:
            raise over_limit("characters of all settings", "limitKvBytes", limits.kv_bytes)

    async def delete(self, namespace: str, key: str) -> None:
        async with self._turn:
            await self._save(without_key(self._spaces, namespace, key))

    async def _save(self, spaces: Spaces) -> None:
        if spaces == self._spaces:
            return
        try:
            await finish_in_thread(save_table, self._path, encode_spaces(spaces))
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {error.strerror or error}") from error
        self._spaces = spaces


def _is_readable(text: str) -> bool:
    try:
        decode_spaces(text)
    except ConfigError:
        return False
    return True
