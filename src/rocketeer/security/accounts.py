"""Accounts and what they may do, from RocketMQ's `plain_acl.yml`; read-only, made anew when a file changes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any

from rocketeer.errors import ConfigError
from rocketeer.security.addresses import AddressTest, parse_white_list

KEY_CHARS_MIN = 7
"""RocketMQ's rule for access keys and secrets: longer than 6."""


class Permission(IntFlag):
    """What an account may do with a topic or a group. Without a word about it: DENY."""

    DENY = 0
    PUB = 1
    SUB = 2


_PERMISSIONS = {
    "DENY": Permission.DENY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
    "ANY": Permission.PUB | Permission.SUB,
}


def _nobody(address: str) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Account:
    """One access key. Two secrets may be valid at a time, so that they can be changed without an outage."""

    access_key: str
    secrets: tuple[str, ...] = field(repr=False)
    is_white: AddressTest = _nobody
    admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    topics: Mapping[str, Permission] = field(default_factory=dict)
    groups: Mapping[str, Permission] = field(default_factory=dict)

    def may_topic(self, topic: str, wanted: Permission) -> bool:
        return wanted in self.topics.get(topic, self.default_topic)

    def may_group(self, group: str, wanted: Permission) -> bool:
        return wanted in self.groups.get(group, self.default_group)


@dataclass(frozen=True)
class Accounts:
    """All that the files say together."""

    by_key: Mapping[str, Account] = field(default_factory=dict)
    white_lists: tuple[AddressTest, ...] = ()

    def is_white(self, address: str) -> bool:
        return any(test(address) for test in self.white_lists)


def parse_accounts(content: object) -> Accounts:
    """One file's content, as YAML gives it. Raises ConfigError that names the account and the field."""
    if content is None:
        return Accounts()
    if not isinstance(content, dict):
        raise ConfigError("the file holds no mapping with `accounts` and `globalWhiteRemoteAddresses`")
    white_lists = [parse_white_list(str(each)) for each in _list(content, "globalWhiteRemoteAddresses")]
    by_key: dict[str, Account] = {}
    for place, entry in enumerate(_list(content, "accounts"), start=1):
        if not isinstance(entry, dict):
            raise ConfigError(f"account {place} is no mapping")
        account = parse_account(entry)
        if account.access_key in by_key:
            raise ConfigError(f"the accessKey {account.access_key} stands there twice")
        by_key[account.access_key] = account
    return Accounts(by_key, tuple(white_lists))


def parse_account(entry: Mapping[Any, Any]) -> Account:
    key = _text(entry, "accessKey")
    secrets = [_text(entry, "secretKey")]
    if entry.get("secondarySecretKey"):
        secrets.append(_text(entry, "secondarySecretKey"))
    if len(key) < KEY_CHARS_MIN or any(len(secret) < KEY_CHARS_MIN for secret in secrets):
        # Which secret it was is nobody's business but the file's.
        raise ConfigError(
            f"accessKey {key!r}: accessKey and secretKey must have {KEY_CHARS_MIN} characters or more"
        )
    try:
        white = entry.get("whiteRemoteAddress")
        return Account(
            access_key=key,
            secrets=tuple(secrets),
            is_white=_nobody if not white else parse_white_list(str(white)),
            admin=_flag(entry, "admin"),
            default_topic=_permission(entry.get("defaultTopicPerm")),
            default_group=_permission(entry.get("defaultGroupPerm")),
            topics=_permissions(_list(entry, "topicPerms")),
            groups=_permissions(_list(entry, "groupPerms")),
        )
    except ConfigError as error:
        raise ConfigError(f"accessKey {key!r}: {error}") from None


def _list(mapping: Mapping[Any, Any], name: str) -> list[Any]:
    value = mapping.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigError(f"{name} is no list")
    return value


def _text(mapping: Mapping[Any, Any], name: str) -> str:
    value = mapping.get(name)
    # YAML reads 12345678 as a number; RocketMQ's own example has such a secret.
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigError(f"{name} is missing or no text")
    return str(value)


def _flag(mapping: Mapping[Any, Any], name: str) -> bool:
    value = mapping.get(name, False)
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    raise ConfigError(f"{name} is {value!r}, neither true nor false")


def _permission(text: object) -> Permission:
    if text is None:
        return Permission.DENY
    try:
        return _PERMISSIONS[str(text).replace(" ", "")]
    except KeyError:
        raise ConfigError(f"the permission {text!r} is none of {', '.join(_PERMISSIONS)}") from None


def _permissions(entries: Iterable[object]) -> dict[str, Permission]:
    permissions: dict[str, Permission] = {}
    for entry in entries:
        name, equals, text = str(entry).partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{entry!r} is not of the form name=PUB|SUB")
        permissions[name.strip()] = _permission(text)
    return permissions
