"""What name servers keep: values by namespace and key (100-102, 219), and their own settings (318, 319)."""

from collections.abc import Mapping

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import ask_nameserver, tell_nameservers
from rocketeer.client.plans.effects import Plan
from rocketeer.errors import BrokerRefused
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.bodies.properties import decode_properties, encode_properties
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.nameserver import (
    GetKvConfigReplyHeader,
    GetKvListHeader,
    KvKeyHeader,
    PutKvConfigHeader,
)


def get_kv(context: AdminContext, namespace: str, key: str) -> Plan[str | None]:
    """A value the name servers keep; None when there is none."""
    try:
        reply = yield from ask_nameserver(context, RequestCode.GET_KV_CONFIG, KvKeyHeader(namespace, key))
    except BrokerRefused as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise
    return decode_header(GetKvConfigReplyHeader, reply.ext).value


def kv_namespace(context: AdminContext, namespace: str) -> Plan[Mapping[str, str]]:
    """All values of a namespace; none for one that nobody wrote to."""
    try:
        reply = yield from ask_nameserver(
            context, RequestCode.GET_KVLIST_BY_NAMESPACE, GetKvListHeader(namespace)
        )
    except BrokerRefused as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        raise
    return decode_kv_table(reply.body)


def put_kv(context: AdminContext, namespace: str, key: str, value: str) -> Plan[None]:
    """Have every name server keep a value."""
    yield from tell_nameservers(context, RequestCode.PUT_KV_CONFIG, PutKvConfigHeader(namespace, key, value))


def delete_kv(context: AdminContext, namespace: str, key: str) -> Plan[None]:
    """Have every name server forget a value."""
    yield from tell_nameservers(context, RequestCode.DELETE_KV_CONFIG, KvKeyHeader(namespace, key))


def nameserver_settings(context: AdminContext) -> Plan[Mapping[str, Mapping[str, str]]]:
    """The settings in force at each name server, by its address."""
    replies = yield from tell_nameservers(context, RequestCode.GET_NAMESRV_CONFIG)
    return {address: decode_properties(reply.body) for address, reply in replies.items()}


def update_nameserver_settings(context: AdminContext, changes: Mapping[str, str]) -> Plan[tuple[str, ...]]:
    """Change settings of every name server while it runs; their addresses."""
    body = encode_properties(changes)
    replies = yield from tell_nameservers(context, RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    return tuple(replies)
