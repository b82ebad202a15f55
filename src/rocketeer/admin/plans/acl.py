"""Accounts in brokers' ACL files: change and delete (50, 51), versions (52), addresses let in without one (53)."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import ask_broker, each_broker, on_each_broker
from rocketeer.admin.plans.clusters import choose_brokers
from rocketeer.admin.results import ClusterBroker, Done, PerBroker
from rocketeer.client.plans.effects import Plan
from rocketeer.errors import BadBody, ConfigError
from rocketeer.model.data_version import DataVersion
from rocketeer.protocol.bodies.data_version import decode_data_version
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.admin import (
    AclVersionReplyHeader,
    DeleteAclConfigHeader,
    UpdateAclConfigHeader,
    UpdateGlobalWhiteAddressesHeader,
)
from rocketeer.protocol.headers.base import decode_header

_files_decoder = msgspec.json.Decoder(dict[str, DataVersion])


@dataclass(frozen=True, slots=True)
class AclVersion:
    """Which ACL a broker has; `files` are its files with their versions."""

    cluster: str
    broker_name: str
    address: str
    version: DataVersion
    files: Mapping[str, DataVersion]


def update_acl_account(
    context: AdminContext,
    account: UpdateAclConfigHeader,
    *,
    broker: str | None = None,
    cluster: str | None = None,
) -> Plan[Done]:
    """Make or change an account at a broker, or at every broker of a cluster."""
    brokers = yield from _where(context, broker, cluster)
    code = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG
    return (yield from on_each_broker(brokers, lambda each: ask_broker(context, each.address, code, account)))


def delete_acl_account(
    context: AdminContext, access_key: str, *, broker: str | None = None, cluster: str | None = None
) -> Plan[Done]:
    """Delete an account at a broker, or at every broker of a cluster."""
    brokers = yield from _where(context, broker, cluster)
    code, header = RequestCode.DELETE_ACL_CONFIG, DeleteAclConfigHeader(access_key)
    return (yield from on_each_broker(brokers, lambda each: ask_broker(context, each.address, code, header)))


def update_white_addresses(
    context: AdminContext,
    addresses: str,
    *,
    acl_file: str | None = None,
    broker: str | None = None,
    cluster: str | None = None,
) -> Plan[Done]:
    """Say from which addresses (comma separated) brokers take everything without an account."""
    brokers = yield from _where(context, broker, cluster)
    code = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
    header = UpdateGlobalWhiteAddressesHeader(addresses, acl_file)
    return (yield from on_each_broker(brokers, lambda each: ask_broker(context, each.address, code, header)))


def acl_versions(
    context: AdminContext, *, broker: str | None = None, cluster: str | None = None
) -> Plan[PerBroker[AclVersion]]:
    """The versions of brokers' ACL files."""
    brokers = yield from _where(context, broker, cluster)

    def version(each: ClusterBroker) -> Plan[AclVersion]:
        reply = yield from ask_broker(context, each.address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        header = decode_header(AclVersionReplyHeader, reply.ext)
        whole = decode_data_version(header.version.encode())
        return AclVersion(
            header.cluster_name,
            header.broker_name,
            header.broker_address,
            whole,
            _files(header.all_files_version),
        )

    return (yield from each_broker(brokers, version))


def _files(text: str | None) -> dict[str, DataVersion]:
    if not text:
        return {}
    try:
        return _files_decoder.decode(text)
    except msgspec.DecodeError as why:
        raise BadBody(f"versions of ACL files that cannot be read: {why}") from None


def _where(context: AdminContext, broker: str | None, cluster: str | None) -> Plan[tuple[ClusterBroker, ...]]:
    if broker is None and cluster is None:
        raise ConfigError("say which brokers: broker= an address, or cluster= a name")
    return (yield from choose_brokers(context, broker=broker, cluster=cluster, masters_only=False))
