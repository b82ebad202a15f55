"""Name servers: their settings and the key-value tables they keep."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.console.i18n import text
from rocketeer.console.registry import Action, Outcome, Param, View
from rocketeer.console.users import Role
from rocketeer.console.visit import Visit
from rocketeer.errors import BrokerRefused

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


async def operations(visit: Visit) -> Mapping[str, Any]:
    namespace = visit.text("namespace", ORDER_NAMESPACE)
    settings = await visit.cluster.admin.nameserver_settings()
    try:
        pairs = dict(await visit.cluster.admin.kv_namespace(namespace))
    except BrokerRefused:
        pairs = {}  # the namespace does not exist
    return {"settings": settings, "namespace": namespace, "pairs": pairs}


async def put_kv(visit: Visit) -> Outcome:
    namespace, key = visit.needed("namespace"), visit.needed("key")
    await visit.cluster.admin.put_kv(namespace, key, visit.text("value"))
    return Outcome(text("{key} is saved in {namespace}", key=key, namespace=namespace))


async def delete_kv(visit: Visit) -> Outcome:
    namespace, key = visit.needed("namespace"), visit.needed("key")
    await visit.cluster.admin.delete_kv(namespace, key)
    return Outcome(text("{key} is deleted from {namespace}", key=key, namespace=namespace))


async def change_setting(visit: Visit) -> Outcome:
    key, value = visit.needed("key"), visit.text("value")
    await visit.cluster.admin.update_nameserver_settings({key: value})
    return Outcome(text("{key} is {value} on every name server now", key=key, value=repr(value)))


_WHERE = (Param("namespace", "namespace", required=True), Param("key", "key", required=True))
VIEWS: Sequence[View] = (
    View("/operations", "operations", "Name servers and their tables", operations, "operations.html",
         nav="Name servers", query=(Param("namespace", "namespace"),)),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/operations/kv", "put_kv", "Save a key", put_kv, (*_WHERE, Param("value", "value")), role=Role.ADMIN,
           warning="On every name server."),
    Action("/operations/setting", "nameserver_setting", "Change a setting", change_setting, role=Role.ADMIN,
           fields=(Param("key", "key", required=True), Param("value", "value")), dangerous=True,
           warning="On every name server."),
    Action("/operations/kv/delete", "delete_kv", "Delete a key", delete_kv, _WHERE, role=Role.ADMIN, dangerous=True,
           warning="On every name server."),
)  # fmt: skip
