"""What name servers keep: values by namespace and key (100-102, 219), and their own settings (318, 319)."""

from collections.abc import Mapping

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import ask_each_nameserver, ask_nameserver, tell_nameservers
from rocketeer.client.plans.effects import Plan
from rocketeer.errors import BrokerRefused
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.bodies.properties import decode_settings, encode_settings
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.headers.base import Header, decode_header
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


def kv_of_each(context: AdminContext, namespace: str, key: str) -> Plan[list[str]]:
    """The values at the name servers that answer and have one: one that was away before has an old one, or none."""
    answers = yield from ask_each_nameserver(context, RequestCode.GET_KV_CONFIG, KvKeyHeader(namespace, key))
    values: list[str] = []
    for answer in answers:
        if isinstance(answer, BrokerRefused):
            if answer.code != ResponseCode.QUERY_NOT_FOUND:
                raise answer
        elif (value := decode_header(GetKvConfigReplyHeader, answer.ext).value) is not None:
            values.append(value)
    return values


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


def put_kv_anywhere(context: AdminContext, namespace: str, key: str, value: str) -> Plan[None]:
    """As `put_kv`, but one name server that takes it is enough."""
    yield from _tell_any(context, RequestCode.PUT_KV_CONFIG, PutKvConfigHeader(namespace, key, value))


def delete_kv_anywhere(context: AdminContext, namespace: str, key: str) -> Plan[None]:
    """As `delete_kv`, but one name server that takes it is enough."""
    yield from _tell_any(context, RequestCode.DELETE_KV_CONFIG, KvKeyHeader(namespace, key))


def _tell_any(context: AdminContext, code: int, header: Header) -> Plan[None]:
    answers = yield from ask_each_nameserver(context, code, header)
    refusals = [answer for answer in answers if isinstance(answer, BrokerRefused)]
    if len(refusals) == len(answers):
        raise refusals[0]


def nameserver_settings(context: AdminContext) -> Plan[Mapping[str, Mapping[str, str]]]:
    """The settings in force at each name server, by its address."""
    replies = yield from tell_nameservers(context, RequestCode.GET_NAMESRV_CONFIG)
    return {address: decode_settings(reply.body) for address, reply in replies.items()}


def update_nameserver_settings(context: AdminContext, changes: Mapping[str, str]) -> Plan[tuple[str, ...]]:
    """Change settings of every name server while it runs; their addresses."""
    body = encode_settings(changes)
    replies = yield from tell_nameservers(context, RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    return tuple(replies)
