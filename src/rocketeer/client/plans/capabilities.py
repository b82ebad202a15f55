"""What a broker can do beyond RocketMQ 4.9, as it says itself."""

from typing import Final, NamedTuple

from rocketeer.client.plans.effects import Call, Plan
from rocketeer.client.plans.replies import refused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import OUR_LANGUAGE, Command, request
from rocketeer.protocol.headers.send import GetProducerSequenceHeader
from rocketeer.protocol.versions import version_name

_V5: Final = 412
assert version_name(_V5) == "V5_0_0_SNAPSHOT"


class BrokerCapabilities(NamedTuple):
    """Whether it knows idempotent producers and messages with a time of delivery."""

    idempotent: bool
    timed: bool


def broker_capabilities(address: str, timeout_s: float) -> Plan[BrokerCapabilities]:
    """Ask the broker for a sequence that nobody has; raises BrokerRefused for one too busy to say what it is."""
    asked = request(RequestCode.GET_PRODUCER_SEQUENCE, GetProducerSequenceHeader("?", "?", 0))
    reply: Command = yield Call(address, asked, timeout_s)
    ours = reply.language == OUR_LANGUAGE
    # A member of a group that does not lead now knows them as well.
    knows = reply.code == ResponseCode.SUCCESS or (ours and reply.code == ResponseCode.SERVICE_NOT_AVAILABLE)
    if not knows and reply.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise refused(reply, address)
    # A broker of 4.x takes the property for any other, and delivers at once.
    return BrokerCapabilities(idempotent=knows, timed=ours or reply.version >= _V5)
