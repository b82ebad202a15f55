"""Replica groups: brokers of one name that elect their leader; who is in sync; a planned change of the leader."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.console.errors import BadField
from rocketeer.console.i18n import TranslatableText, text
from rocketeer.console.page_request import PageRequest
from rocketeer.console.registry import Action, ActionResult, PageView
from rocketeer.console.users import UserRole
from rocketeer.protocol.bodies.replica_group import Replica, ReplicaGroup

OLD_MS: Final = 2_000
"""Members read etcd five times a second."""


async def replicas(request: PageRequest) -> Mapping[str, Any]:
    told = await request.cluster.admin.replica_groups()
    return {
        "groups": [
            {
                "group": group,
                "members": [{"member": each, "behind": behind(group, each)} for each in group.members],
                "missing": max(group.members_meant - len(group.members), 0),
                "old_s": group.age_ms / 1000 if group.age_ms > OLD_MS else None,
            }
            for group in told.groups
        ],
        "failures": told.failures,
    }


def behind(group: ReplicaGroup, replica: Replica) -> int | None:
    """How many bytes a member lacks of what is confirmed; None where nobody who was asked knows."""
    return None if replica.log_end is None else max(group.confirmed - replica.log_end, 0)


def _member(request: PageRequest) -> int:
    given = request.path["member"]
    if not (given.isascii() and given.isdigit() and len(given) < 5):
        raise BadField(text("{value} is no number of a member", value=repr(given[:40])))
    return int(given)


async def switch(request: PageRequest) -> ActionResult:
    name, member = request.path["name"], _member(request)
    group = await request.cluster.admin.switch_leader(name, member)
    return ActionResult(
        text("member {member} leads {name}, epoch {epoch}", member=member, name=name, epoch=group.epoch)
    )


async def switch_before(request: PageRequest) -> list[TranslatableText]:
    name = request.path["name"]
    told = await request.cluster.admin.replica_groups()
    for group in told.groups:
        if group.broker_name == name:
            return [
                text(
                    "Member {leader} leads now, epoch {epoch}; {count} members are in sync.",
                    leader=group.leader,
                    epoch=group.epoch,
                    count=sum(each.is_in_sync for each in group.members),
                )
            ]
    return [text("{name} is in no replica group that answers.", name=name)]


VIEWS: Sequence[PageView] = (
    PageView("/replicas", "replicas", "Replica groups: leaders, members, who is in sync", replicas, "replicas.html",
             nav="Replicas"),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/replicas/{name}/{member}/lead", "switch_leader", "Let it lead", switch, role=UserRole.ADMIN,
           dangerous=True, preview=switch_before,
           warning="Member {member} of {name} leads from then on. Sends wait for a moment; no message is lost."),
)  # fmt: skip
