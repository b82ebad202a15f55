"""Replica groups: brokers of one name that elect their leader (300003), and a planned change of it (300004)."""

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import ask_broker, in_parallel
from rocketeer.admin.plans.clusters import cluster_map
from rocketeer.admin.results import ClusterBroker, NotAnswered, ReplicaGroups
from rocketeer.client.plans.effects import Plan, Sleep
from rocketeer.errors import (
    AccessDenied,
    BrokerRefused,
    ConfigError,
    GroupError,
    RemotingError,
    RocketeerError,
)
from rocketeer.protocol.bodies.replica_group import ReplicaGroup, decode_replica_group
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.headers.admin import SwitchLeaderHeader

SWITCH_S = 30.0
LOOK_S = 0.2


def replica_group(context: AdminContext, broker: str) -> Plan[ReplicaGroup | None]:
    """The replica group that the broker at this address is a member of; None when it is in none."""
    try:
        reply = yield from ask_broker(context, broker, RequestCode.GET_REPLICA_GROUP)
    except BrokerRefused as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        raise
    return decode_replica_group(reply.body)


def replica_groups(context: AdminContext) -> Plan[ReplicaGroups]:
    """Every replica group, told by its leader where there is one; brokers without one are not in it."""
    known = yield from cluster_map(context)
    names: dict[tuple[str, str], list[ClusterBroker]] = {}
    for each in known.brokers:
        names.setdefault((each.cluster, each.name), []).append(each)
    answers = yield from in_parallel([_of_name(context, brokers) for brokers in names.values()])
    groups: list[ReplicaGroup] = []
    failures: list[NotAnswered] = []
    for brokers, answer in zip(names.values(), answers, strict=True):
        if isinstance(answer, RocketeerError):
            failures.append(NotAnswered(str(brokers[0]), answer))
        elif answer is not None:
            groups.append(answer)
    return ReplicaGroups(tuple(groups), tuple(failures))


def _of_name(context: AdminContext, brokers: list[ClusterBroker]) -> Plan[ReplicaGroup | None]:
    """The leader knows most, and comes first; without it another member tells."""
    failure: RocketeerError | None = None
    for broker in sorted(brokers):
        try:
            return (yield from replica_group(context, broker.address))
        except AccessDenied:
            raise
        except (BrokerRefused, RemotingError) as error:
            failure = failure or error
    raise failure or GroupError("the name server knows none of its members")


def switch_leader(context: AdminContext, broker_name: str, member: int) -> Plan[ReplicaGroup]:
    """Let another member of a replica group lead, one that is in sync. No message is lost.

    Returns when it leads and the name server sends everybody to it: who asks next sees the new leader.
    """
    known = yield from cluster_map(context)
    brokers = [each for each in known.brokers if each.name == broker_name]
    if not brokers:
        names = ", ".join(sorted({each.name for each in known.brokers})) or "none"
        raise ConfigError(f"no broker {broker_name!r}: the name server knows {names}")
    group = yield from _of_name(context, brokers)
    if group is None:
        raise ConfigError(f"{broker_name} is in no replica group: its leader cannot be switched")
    chosen = group.member(member)
    if chosen is None or not chosen.is_alive:
        numbers = ", ".join(str(each.member) for each in group.members if each.is_alive)
        raise ConfigError(f"{broker_name} has no member {member} that is alive: there are {numbers}")
    if chosen.is_leader:
        return group
    yield from ask_broker(context, chosen.address, RequestCode.SWITCH_LEADER, SwitchLeaderHeader(member))
    end_s = context.clock.monotonic_s() + SWITCH_S
    while True:
        yield Sleep(LOOK_S)
        known = yield from cluster_map(context)
        try:
            found = yield from _of_name(context, [each for each in known.brokers if each.name == broker_name])
        except (BrokerRefused, GroupError, RemotingError):
            found = None  # it starts anew as leader
        now = None if found is None else found.member(member)
        if found is not None and now is not None and now.is_leader and found.epoch > group.epoch:
            return found
        if context.clock.monotonic_s() > end_s:
            raise GroupError(
                f"member {member} of {broker_name} does not lead after {SWITCH_S:g} s: see the leader's log"
            )
