"""Consumer groups as JSON: one (200), a broker's table with its version (201, its file), names (300)."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import structs

from rocketeer.errors import BadBody
from rocketeer.model.data_version import DataVersion
from rocketeer.model.group import SubscriptionGroup
from rocketeer.protocol.bodies.long_body import encoding_list
from rocketeer.protocol.bodies.wire import EntriesBody, Wire, decoder, encode, load_as, load_request
from rocketeer.steps import Steps


class GroupTableBody(NamedTuple):
    """A broker's consumer groups by name."""

    groups: dict[str, SubscriptionGroup]
    version: DataVersion


class _GroupTableWire(Wire):
    subscription_group_table: Mapping[str, SubscriptionGroup | None] | None = None
    data_version: DataVersion | None = None


class _GroupListWire(Wire):
    group_list: list[str] | None = None


_group_decoder = decoder(SubscriptionGroup)
GROUP_ENTRIES: Final = EntriesBody(b"subscriptionGroupTable")
"""The body of 201."""

_table_decoder = decoder(_GroupTableWire)
_list_decoder = decoder(_GroupListWire)


def encode_group(group: SubscriptionGroup) -> bytes:
    return encode(group)


def decode_group(data: bytes) -> SubscriptionGroup:
    group = load_request(_group_decoder, data)
    if not group.name:
        raise BadBody("a consumer group without groupName")
    return group


def decode_group_table(data: bytes) -> GroupTableBody:
    wire = load_as(_table_decoder, data)
    table = wire.subscription_group_table or {}
    groups = {
        name: group if group.name else structs.replace(group, name=name)  # for senders that leave it out
        for name, group in table.items()
        if group is not None
    }
    return GroupTableBody(groups, wire.data_version or DataVersion())


def encoding_group_list(groups: Iterable[str]) -> Steps[bytes]:
    """The answer to 300, in steps: offsets are taken for any name, so there may be very many."""
    return encoding_list("groupList", groups)


def decode_group_list(data: bytes) -> list[str]:
    return load_as(_list_decoder, data).group_list or []
