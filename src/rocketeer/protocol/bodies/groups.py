"""Consumer groups as JSON: one (200), a broker's table with its version (201, its file), names (300)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rocketeer.errors import BadBody
from rocketeer.model.data_version import DataVersion
from rocketeer.model.group import SubscriptionGroup
from rocketeer.protocol.bodies.data_version import VersionWire, version_from_wire, version_to_wire
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as, load_request
from rocketeer.protocol.java_types import I32, I64


class GroupTable(NamedTuple):
    """A broker's consumer groups by name."""

    groups: dict[str, SubscriptionGroup]
    version: DataVersion


class _GroupWire(Wire):
    group_name: str | None = None
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: I32 = 1
    retry_max_times: I32 = 16
    broker_id: I64 = 0
    which_broker_when_consume_slowly: I64 = 1
    notify_consumer_ids_changed_enable: bool = True


class _GroupTableWire(Wire):
    subscription_group_table: dict[str, _GroupWire | None] | None = None
    data_version: VersionWire | None = None


class _GroupListWire(Wire):
    group_list: list[str] | None = None


_group_decoder = decoder(_GroupWire)
_table_decoder = decoder(_GroupTableWire)
_list_decoder = decoder(_GroupListWire)


def _to_wire(group: SubscriptionGroup) -> _GroupWire:
    return _GroupWire(
        group.name,
        group.consume_enable,
        group.consume_from_min_enable,
        group.consume_broadcast_enable,
        group.retry_queues,
        group.retry_max,
        group.broker_id,
        group.which_broker_when_consume_slowly,
        group.notify_consumer_ids_changed_enable,
    )


def _from_wire(wire: _GroupWire, name: str | None = None) -> SubscriptionGroup:
    name = name if wire.group_name is None else wire.group_name
    if name is None:
        raise BadBody("a consumer group without groupName")
    return SubscriptionGroup(
        name,
        wire.consume_enable,
        wire.consume_from_min_enable,
        wire.consume_broadcast_enable,
        wire.retry_queue_nums,
        wire.retry_max_times,
        wire.broker_id,
        wire.which_broker_when_consume_slowly,
        wire.notify_consumer_ids_changed_enable,
    )


def encode_group(group: SubscriptionGroup) -> bytes:
    return encode(_to_wire(group))


def decode_group(data: bytes) -> SubscriptionGroup:
    return _from_wire(load_request(_group_decoder, data))


def encode_group_table(groups: Mapping[str, SubscriptionGroup], version: DataVersion) -> bytes:
    table: dict[str, _GroupWire | None] = {name: _to_wire(group) for name, group in groups.items()}
    return encode(_GroupTableWire(table, version_to_wire(version)))


def encode_group_entry(group: SubscriptionGroup) -> bytes:
    """What stands for one group in a table; `join_group_table` makes the table of them."""
    return encode(group.name) + b":" + encode(_to_wire(group))


def join_group_table(entries: Iterable[bytes], version: DataVersion) -> bytes:
    """The same bytes as `encode_group_table`: only the groups that changed must be encoded again."""
    return b'{"subscriptionGroupTable":{%b},"dataVersion":%b}' % (
        b",".join(entries),
        encode(version_to_wire(version)),
    )


def decode_group_table(data: bytes) -> GroupTable:
    wire = load_as(_table_decoder, data)
    table = wire.subscription_group_table or {}
    groups = {name: _from_wire(group, name) for name, group in table.items() if group is not None}
    return GroupTable(groups, version_from_wire(wire.data_version))


def encode_group_list(groups: Iterable[str]) -> bytes:
    """The answer to 300."""
    return encode(_GroupListWire(list(groups)))


def decode_group_list(data: bytes) -> list[str]:
    return load_as(_list_decoder, data).group_list or []
