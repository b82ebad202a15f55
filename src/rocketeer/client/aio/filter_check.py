"""Asks brokers, before a consumer starts, whether they can filter by its expressions (46), as Java's client does."""

import logging
from collections.abc import Iterable

from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.plans.clients import check_subscription
from rocketeer.errors import NoRoute, RemotingError
from rocketeer.model.subscription import TAG, Subscription

log = logging.getLogger(__name__)


async def check_filters(instance: ClientInstance, group: str, subscriptions: Iterable[Subscription]) -> None:
    """Raises BrokerRefused, with the broker's reason, for an expression it does not take.

    One broker of each topic is asked. A topic without a route, or a broker out of reach, is no reason not to start.
    """
    for subscription in subscriptions:
        if subscription.kind == TAG:
            continue
        try:
            routes = await instance.route(subscription.topic)
            addresses = [instance.routes.master(queue.broker_name) for queue in routes.subscribe]
            address = next((each for each in addresses if each is not None), None)
            if address is not None:
                timeout_s = instance.config.call_timeout_s
                await instance.run(
                    check_subscription(address, instance.client_id, group, subscription, timeout_s)
                )
        except (NoRoute, RemotingError) as error:
            log.warning("filter not checked group=%s topic=%s reason=%s", group, subscription.topic, error)
