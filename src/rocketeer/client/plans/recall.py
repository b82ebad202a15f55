"""Taking a timed message back: find the broker where it waits, and ask it."""

from rocketeer.client.core.transient import is_led_elsewhere
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.replies import ask
from rocketeer.client.plans.send import Sender
from rocketeer.errors import BrokerRefused, RemotingError
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.protocol.headers.base import decode_header, encode_header
from rocketeer.protocol.headers.recall import RecallMessageHeader, RecallMessageReplyHeader
from rocketeer.protocol.recall_handle import RecallHandle


def recall_plan(sender: Sender, handle: str, timeout_s: float) -> Plan[str]:
    """The id of the message that will not be delivered. Raises BadRecallHandle, NoBroker, BrokerRefused."""
    wanted = RecallHandle.decode(handle)
    config = sender.config
    yield from sender.publish_route(wanted.topic, min(timeout_s, config.call_timeout_s))
    address = sender.address_of(MessageQueue(wanted.topic, wanted.broker_name, 0))
    header = RecallMessageHeader(topic=wanted.topic, recall_handle=handle, producer_group=config.full_group)
    command = request(RequestCode.RECALL_MESSAGE, encode_header(header))
    try:
        reply = yield from ask(address, command, timeout_s, broker=wanted.broker_name)
    except (RemotingError, BrokerRefused) as error:
        if isinstance(error, RemotingError) or is_led_elsewhere(error):
            sender.routes.suspect(
                wanted.topic
            )  # by now another member may lead its group: the next try finds it
        raise
    return decode_header(RecallMessageReplyHeader, reply.ext).msg_id
