"""A client and the brokers: the heartbeat that makes it a member of its groups, and the goodbye."""

from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.replies import ask
from rocketeer.protocol.bodies.heartbeat import Heartbeat, encode_heartbeat
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.protocol.headers.clients import UnregisterClientHeader


def send_heartbeat(address: str, heartbeat: Heartbeat, timeout_s: float) -> Plan[None]:
    """Tell one broker who we are and which groups we are in."""
    yield from ask(address, request(RequestCode.HEART_BEAT, body=encode_heartbeat(heartbeat)), timeout_s)


def unregister(
    address: str,
    client_id: str,
    timeout_s: float,
    *,
    producer_group: str | None = None,
    consumer_group: str | None = None,
) -> Plan[None]:
    """Leave a group on one broker: the others of the group hear of it at once."""
    header = UnregisterClientHeader(client_id, producer_group, consumer_group)
    yield from ask(address, request(RequestCode.UNREGISTER_CLIENT, header), timeout_s)
