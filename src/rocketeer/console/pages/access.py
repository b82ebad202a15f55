"""Accounts of brokers with access control: versions of their files, and changes. Secrets are never shown."""

from collections.abc import Mapping, Sequence
from typing import Any

from rocketeer.console.registry import Action, Outcome, Param, View
from rocketeer.console.users import Role
from rocketeer.console.visit import Visit
from rocketeer.protocol.headers import UpdateAclConfigHeader


async def access(visit: Visit) -> Mapping[str, Any]:
    known = await visit.cluster.brokers.get()
    rows: list[Any] = []
    failures: list[Any] = []
    for cluster in known.clusters:
        answer = await visit.cluster.admin.acl_versions(cluster=cluster)
        rows += list(answer.answers.items())
        failures += answer.failures
    return {"rows": rows, "failures": failures}


async def put_account(visit: Visit) -> Outcome:
    account = UpdateAclConfigHeader(
        access_key=visit.needed("access_key"),
        secret_key=visit.text("secret_key") or None,
        white_remote_address=visit.text("white_address") or None,
        admin=visit.flag("admin"),
        default_topic_perm=visit.text("default_topic") or None,
        default_group_perm=visit.text("default_group") or None,
        topic_perms=visit.text("topics") or None,
        group_perms=visit.text("groups") or None,
    )
    failures: list[object] = []
    for cluster in (await visit.cluster.brokers.get()).clusters:
        failures += (await visit.cluster.admin.update_acl_account(account, cluster=cluster)).failures
    return Outcome(f"account {account.access_key} is saved", failures=[str(failure) for failure in failures])


async def delete_account(visit: Visit) -> Outcome:
    key = visit.needed("access_key")
    failures: list[object] = []
    for cluster in (await visit.cluster.brokers.get()).clusters:
        failures += (await visit.cluster.admin.delete_acl_account(key, cluster=cluster)).failures
    return Outcome(f"account {key} is deleted", failures=[str(failure) for failure in failures])


_PERMS = ("", "DENY", "PUB", "SUB", "PUB|SUB")
VIEWS: Sequence[View] = (
    View(
        "/access",
        "access",
        "Access control of the brokers",
        access,
        "access.html",
        role=Role.ADMIN,
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
           role=Role.ADMIN, warning="In force on every broker within seconds."),
    Action("/access/delete", "delete_account", "Delete an account", delete_account,
           (Param("access_key", "access key", required=True),), role=Role.ADMIN, dangerous=True,
           warning="Programs that use the account are refused at once."),
)  # fmt: skip
