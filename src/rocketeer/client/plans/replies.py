"""What all plans do with replies: a code other than SUCCESS becomes an error saying who refused and why."""

from rocketeer.client.plans.effects import Call, Plan
from rocketeer.errors import AccessDenied, BrokerRefused
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command

ACL_REMARK = "AclException"
"""How brokers, Apache's and ours, begin the remark of what access control refused; the code is SYSTEM_ERROR."""
_NAMES = {int(code): code.name for code in ResponseCode}


def refused(reply: Command, broker: str, queue: object = None) -> BrokerRefused:
    """The error for a reply that is not what was asked for."""
    name = _NAMES.get(reply.code, "")
    kind = AccessDenied if ACL_REMARK in (reply.remark or "") else BrokerRefused
    return kind(reply.code, reply.remark, broker=broker, code_name=name, queue=queue)


def ask(address: str, command: Command, timeout_s: float, *, broker: str = "") -> Plan[Command]:
    """Call, and raise BrokerRefused unless the reply is SUCCESS."""
    reply: Command = yield Call(address, command, timeout_s)
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, f"{broker} ({address})" if broker else address)
    return reply
