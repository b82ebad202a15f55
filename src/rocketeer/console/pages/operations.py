"""Name servers: their settings and the key-value tables they keep."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.console.i18n import text
from rocketeer.console.page_request import PageRequest
from rocketeer.console.registry import Action, ActionResult, PageView, Param
from rocketeer.console.users import UserRole
from rocketeer.errors import BrokerRefused

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


async def operations(request: PageRequest) -> Mapping[str, Any]:
    namespace = request.text("namespace", ORDER_NAMESPACE)
    settings = await request.cluster.admin.nameserver_settings()
    try:
        pairs = dict(await request.cluster.admin.kv_namespace(namespace))
    except BrokerRefused:
        pairs = {}  # the namespace does not exist
    return {"settings": settings, "namespace": namespace, "pairs": pairs}


async def put_kv(request: PageRequest) -> ActionResult:
    namespace, key = request.needed("namespace"), request.needed("key")
    await request.cluster.admin.put_kv(namespace, key, request.text("value"))
    return ActionResult(text("{key} is saved in {namespace}", key=key, namespace=namespace))


async def delete_kv(request: PageRequest) -> ActionResult:
    namespace, key = request.needed("namespace"), request.needed("key")
    await request.cluster.admin.delete_kv(namespace, key)
    return ActionResult(text("{key} is deleted from {namespace}", key=key, namespace=namespace))


async def change_setting(request: PageRequest) -> ActionResult:
    key, value = request.needed("key"), request.text("value")
    await request.cluster.admin.update_nameserver_settings({key: value})
    return ActionResult(text("{key} is {value} on every name server now", key=key, value=repr(value)))


_WHERE = (Param("namespace", "namespace", required=True), Param("key", "key", required=True))
VIEWS: Sequence[PageView] = (
    PageView("/operations", "operations", "Name servers and their tables", operations, "operations.html",
             nav="Name servers", query=(Param("namespace", "namespace"),)),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/operations/kv", "put_kv", "Save a key", put_kv, (*_WHERE, Param("value", "value")), role=UserRole.ADMIN,
           warning="On every name server."),
    Action("/operations/setting", "nameserver_setting", "Change a setting", change_setting, role=UserRole.ADMIN,
           fields=(Param("key", "key", required=True), Param("value", "value")), dangerous=True,
           warning="On every name server."),
    Action("/operations/kv/delete", "delete_kv", "Delete a key", delete_kv, _WHERE, role=UserRole.ADMIN,
           dangerous=True, warning="On every name server."),
)  # fmt: skip
