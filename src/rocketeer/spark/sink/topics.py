"""Making the topic that is written to, where the option `createTopic` says so: on every broker, and never changed."""

import asyncio
import logging
from typing import Final

from rocketeer.client.core.transient import backoffs
from rocketeer.client.plans.topics import put_topic_everywhere
from rocketeer.errors import NoBroker, NoRoute
from rocketeer.model.topic import TopicConfig
from rocketeer.spark.sink.client import ROUTE_TIMEOUT_S, SinkClient

log = logging.getLogger(__name__)

KNOWN_S_MAX: Final = 30.0
"""Time limit for the name servers to know the new topic."""


async def create_missing(client: SinkClient, topic: str, queues: int) -> None:
    """Make the topic with so many queues on each master, unless it is there; returns when its route has them."""
    try:
        await client.route(topic, fresh=True)
        return
    except NoRoute:
        pass
    wanted = TopicConfig(topic, queues, queues)
    masters = await client.driver.run(put_topic_everywhere(client.nameservers, wanted, ROUTE_TIMEOUT_S))
    log.info("topic made topic=%s queues=%d brokers=%s", topic, queues, ",".join(sorted(masters)))
    await _known_to_all(client, topic, masters)


async def _known_to_all(client: SinkClient, topic: str, masters: set[str]) -> None:
    """Wait until the route has all these brokers: with some of them, rows of a key would be in two queues later."""
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
