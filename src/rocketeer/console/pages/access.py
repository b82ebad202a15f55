"""Accounts of brokers with access control: versions of their files, and changes. Secrets are never shown."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.admin.results import ClusterBroker, NotAnswered
from rocketeer.console.i18n import TranslatableText, text
from rocketeer.console.page_request import PageRequest
from rocketeer.console.registry import Action, ActionResult, PageView, Param
from rocketeer.console.users import UserRole
from rocketeer.errors import BrokerRefused, RocketeerError
from rocketeer.protocol.headers.admin import UpdateAclConfigHeader

ENABLED: Final = "aclEnable"


async def access(request: PageRequest) -> Mapping[str, Any]:
    """RocketMQ 4.9.8 tells the versions of the files, not the accounts in them."""
    admin = request.cluster.admin
    brokers = (await request.cluster.brokers.get()).brokers
    settings = await asyncio.gather(*(_settings(request, broker) for broker in brokers))
    # RocketMQ 4.9 never answers the question about its files when it has none: it is not asked.
    asked = [
        broker
        for broker, known in zip(brokers, settings, strict=True)
        if isinstance(known, RocketeerError) or known.get(ENABLED) != "false"
    ]
    without = [text("{who} has aclEnable=false.", who=each.name) for each in brokers if each not in asked]
    answers = await asyncio.gather(*(admin.acl_versions(broker=broker.address) for broker in asked))
    rows = [row for answer in answers for row in answer.answers.items()]
    failures: list[NotAnswered] = []
    for failure in (each for answer in answers for each in answer.failures):
        if isinstance(failure.error, BrokerRefused):  # it has no access control, and says so
            without.append(TranslatableText(str(failure)))
        else:
            failures.append(failure)
    return {"rows": rows, "without": without, "failures": failures}


async def _settings(request: PageRequest, broker: ClusterBroker) -> Mapping[str, str] | RocketeerError:
    try:
        return await request.cluster.admin.broker_settings(broker.address)
    except RocketeerError as error:
        return error


async def put_account(request: PageRequest) -> ActionResult:
    account = UpdateAclConfigHeader(
        access_key=request.needed("access_key"),
        secret_key=request.text("secret_key") or None,
        white_remote_address=request.text("white_address") or None,
        admin=request.flag("admin"),
        default_topic_perm=request.text("default_topic") or None,
        default_group_perm=request.text("default_group") or None,
        topic_perms=request.text("topics") or None,
        group_perms=request.text("groups") or None,
    )
    failures: list[object] = []
    for cluster in (await request.cluster.brokers.get()).clusters:
        failures += (await request.cluster.admin.update_acl_account(account, cluster=cluster)).failures
    return ActionResult(text("account {account} is saved", account=account.access_key), failures=failures)


async def delete_account(request: PageRequest) -> ActionResult:
    key = request.needed("access_key")
    failures: list[object] = []
    for cluster in (await request.cluster.brokers.get()).clusters:
        failures += (await request.cluster.admin.delete_acl_account(key, cluster=cluster)).failures
    return ActionResult(text("account {account} is deleted", account=key), failures=failures)


async def set_white_addresses(request: PageRequest) -> ActionResult:
    addresses = request.needed("addresses")
    failures: list[object] = []
    for cluster in (await request.cluster.brokers.get()).clusters:
        done = await request.cluster.admin.update_white_addresses(addresses, cluster=cluster)
        failures += done.failures
    return ActionResult(text("{addresses} need no account now", addresses=addresses), failures=failures)


_PERMS = ("", "DENY", "PUB", "SUB", "PUB|SUB")
VIEWS: Sequence[PageView] = (
    PageView(
        "/access",
        "access",
        "Access control of the brokers",
        access,
        "access.html",
        role=UserRole.ADMIN,
        nav="Access",
    ),
)
ACTIONS: Sequence[Action] = (
    Action("/access", "put_account", "Create or change an account", put_account,
           (Param("access_key", "access key", required=True), Param("secret_key", "secret", "secret"),
            Param("white_address", "white address"), Param("admin", "admin", "flag"),
            Param("default_topic", "topics unless named", "choice", choices=_PERMS),
            Param("default_group", "groups unless named", "choice", choices=_PERMS),
            Param("topics", "topics: A=PUB,B=PUB|SUB"), Param("groups", "groups: G=SUB")),
           role=UserRole.ADMIN, warning="In force on every broker within seconds."),
    Action("/access/delete", "delete_account", "Delete an account", delete_account,
           (Param("access_key", "access key", required=True),), role=UserRole.ADMIN, dangerous=True,
           warning="Programs that use the account are refused at once."),
    Action("/access/white", "white_addresses", "Addresses that need no account", set_white_addresses,
           (Param("addresses", "addresses, with commas", required=True),), role=UserRole.ADMIN, dangerous=True,
           warning="Whoever comes from these addresses may do everything. The list is replaced."),
)  # fmt: skip
