"""Making the topic that is written to, where the option `createTopic` says so: on every broker, and never changed."""

import asyncio
import logging
from typing import Final

from rocketeer.client.core.transient import backoffs
from rocketeer.client.plans.routes import ask_nameservers
from rocketeer.client.plans.topics import put_topic
from rocketeer.errors import NoBroker, NoRoute
from rocketeer.model.route import MASTER_ID
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.route import decode_cluster_info
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.spark.sink.client import ROUTE_TIMEOUT_S, SinkClient

log = logging.getLogger(__name__)

KNOWN_S_MAX: Final = 30.0
"""So long the name servers may take to know the new topic."""


async def create_missing(client: SinkClient, topic: str, queues: int) -> None:
    """Make the topic with so many queues on each master, unless it is there; returns when its route has them."""
    try:
        await client.route(topic, fresh=True)
        return
    except NoRoute:
        pass
    asked = request(RequestCode.GET_BROKER_CLUSTER_INFO)
    reply = await client.driver.run(ask_nameservers(client.nameservers, asked, ROUTE_TIMEOUT_S))
    brokers = decode_cluster_info(reply.body).brokers
    masters = {
        name: data.addresses[MASTER_ID] for name, data in brokers.items() if MASTER_ID in data.addresses
    }
    if not masters:
        raise NoBroker(topic, None, "can be made: the name servers know no master")
    for address in masters.values():
        await client.driver.run(put_topic(address, TopicConfig(topic, queues, queues), ROUTE_TIMEOUT_S))
    log.info("topic made topic=%s queues=%d brokers=%s", topic, queues, ",".join(sorted(masters)))
    await _known_to_all(client, topic, set(masters))


async def _known_to_all(client: SinkClient, topic: str, masters: set[str]) -> None:
    """A write that began with some of the brokers would have rows of a key in two queues later."""
    waited_s = 0.0
    for pause_s in backoffs(0.02, 0.5):
        try:
            known = await client.route(topic, fresh=True)
            if masters <= {queue.broker_name for queue in known.publish}:
                return
        except NoRoute:
            pass
        if waited_s >= KNOWN_S_MAX:
            raise NoBroker(topic, None, f"is known to the name servers {KNOWN_S_MAX:g} s after it was made")
        await asyncio.sleep(pause_s)
        waited_s += pause_s
