"""Asking and answering on asyncio: what `request` and `reply` of the producers do."""

import asyncio
import contextlib
import uuid

from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.core.encoding import Encoder
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.requests import answer, on_the_same_broker, question
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.plans.send import Choose, Sender
from rocketeer.errors import BrokerRefused, NoBroker, NoRoute, RequestTimeout, SendFailed
from rocketeer.model.message import Message
from rocketeer.model.topic import reply_topic


async def ask(
    instance: ClientInstance,
    encoder: Encoder,
    sender: Sender,
    message: Message,
    *,
    choose: Choose | None,
    timeout_s: float,
) -> ReceivedMessage:
    """Send a question and wait for its answer; raises RequestTimeout, or what sending raises."""
    correlation_id = str(uuid.uuid4())
    outgoing = question(
        encoder, message, client_id=instance.client_id, correlation_id=correlation_id, timeout_s=timeout_s
    )
    waiter = instance.answers.expect(correlation_id)
    try:
        async with asyncio.timeout(timeout_s):
            await _be_reachable(instance, sender, outgoing.topic)
            await instance.run(sender.send(outgoing, SendMode.ASYNC, choose=choose, timeout_s=timeout_s))
            return await waiter
    except TimeoutError:
        raise RequestTimeout(message.topic, correlation_id, timeout_s) from None
    finally:
        instance.answers.forget(correlation_id)


async def _be_reachable(instance: ClientInstance, sender: Sender, topic: str) -> None:
    """An answer may come through any broker of the cluster: all must know us before the question leaves."""
    timeout_s = sender.config.call_timeout_s
    known = await instance.run(sender.publish_route(topic, timeout_s))
    for cluster in {broker.cluster for broker in known.route.brokers}:
        if instance.routes.get(reply_topic(cluster)) is None:
            with contextlib.suppress(NoRoute):  # a cluster whose brokers do not answer requests
                await instance.route(reply_topic(cluster))
    await instance.be_known()


async def tell(
    instance: ClientInstance,
    encoder: Encoder,
    sender: Sender,
    asked: ReceivedMessage,
    body: bytes,
    *,
    timeout_s: float | None,
) -> SendResult:
    """Send the answer to a question; returns when who asked has it. Raises what sending raises."""
    outgoing = answer(encoder, asked, body)
    route = await instance.run(sender.publish_route(outgoing.topic, sender.config.call_timeout_s))
    queue = on_the_same_broker(asked, route.publish)
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
