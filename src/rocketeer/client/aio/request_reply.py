"""Request and reply on asyncio: what `request` and `reply` of the producers do."""

import asyncio
import contextlib
import uuid

from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.core.encoding import Encoder
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.request_reply import encode_reply, encode_request, queue_of_same_broker
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.plans.send import Choose, Sender
from rocketeer.errors import BrokerRefused, NoBroker, NoRoute, RequestTimeout, SendFailed
from rocketeer.model.message import Message
from rocketeer.model.topic import reply_topic


async def request(
    instance: ClientInstance,
    encoder: Encoder,
    sender: Sender,
    message: Message,
    *,
    choose: Choose | None,
    timeout_s: float,
) -> ReceivedMessage:
    """Send a request and wait for its reply; raises RequestTimeout, or what sending raises."""
    correlation_id = str(uuid.uuid4())
    outgoing = encode_request(
        encoder, message, client_id=instance.client_id, correlation_id=correlation_id, timeout_s=timeout_s
    )
    waiter = instance.pending_replies.expect(correlation_id)
    try:
        async with asyncio.timeout(timeout_s):
            await _register_with_reply_brokers(instance, sender, outgoing.topic)
            await instance.run(sender.send(outgoing, SendMode.ASYNC, choose=choose, timeout_s=timeout_s))
            return await waiter
    except TimeoutError:
        raise RequestTimeout(message.topic, correlation_id, timeout_s) from None
    finally:
        instance.pending_replies.forget(correlation_id)


async def _register_with_reply_brokers(instance: ClientInstance, sender: Sender, topic: str) -> None:
    """Register with every broker of the cluster first: the reply may come through any of them."""
    timeout_s = sender.config.call_timeout_s
    known = await instance.run(sender.publish_route(topic, timeout_s))
    for cluster in {broker.cluster for broker in known.route.brokers}:
        if instance.routes.get(reply_topic(cluster)) is None:
            with contextlib.suppress(NoRoute):  # a cluster whose brokers do not answer requests
                await instance.route(reply_topic(cluster))
    await instance.ensure_registered()


async def reply(
    instance: ClientInstance,
    encoder: Encoder,
    sender: Sender,
    asked: ReceivedMessage,
    body: bytes,
    *,
    timeout_s: float | None,
) -> SendResult:
    """Send the reply to a request; returns when the requester has it. Raises what sending raises."""
    outgoing = encode_reply(encoder, asked, body)
    route = await instance.run(sender.publish_route(outgoing.topic, sender.config.call_timeout_s))
    queue = queue_of_same_broker(asked, route.publish)
    if queue is not None:
        try:
            same = sender.send(outgoing, choose=lambda queues: queue, timeout_s=timeout_s)
            return _result(await instance.run(same))
        except (BrokerRefused, SendFailed, NoBroker):
            if len(route.publish) == 1:
                raise
    return _result(await instance.run(sender.send(outgoing, timeout_s=timeout_s)))


def _result(result: SendResult | None) -> SendResult:
    assert result is not None, "only oneway sends have no result"
    return result
