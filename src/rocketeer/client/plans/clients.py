"""A client and the brokers: the heartbeat that makes it a member of its groups, the check of its filters, goodbye."""

from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.replies import ask
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.heartbeat import ClientCheck, Heartbeat, encode_client_check, encode_heartbeat
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.protocol.headers.clients import UnregisterClientHeader


def send_heartbeat(address: str, heartbeat: Heartbeat, timeout_s: float) -> Plan[None]:
    """Tell one broker who we are and which groups we are in."""
    yield from ask(address, request(RequestCode.HEART_BEAT, body=encode_heartbeat(heartbeat)), timeout_s)


def check_subscription(
    address: str, client_id: str, group: str, subscription: Subscription, timeout_s: float
) -> Plan[None]:
    """Raise BrokerRefused if the broker cannot filter by the subscription's expression."""
    body = encode_client_check(ClientCheck(client_id, group, subscription))
    yield from ask(address, request(RequestCode.CHECK_CLIENT_CONFIG, body=body), timeout_s)


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
