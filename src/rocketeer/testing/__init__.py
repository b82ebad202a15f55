"""A whole cluster for your own tests: name server and broker, in this process, on free ports, in a folder of its own.

    from rocketeer import Message, Producer
    from rocketeer.testing import cluster

    with cluster() as running:
        with Producer("shop", nameserver=running.nameserver) as producer:
            producer.send(Message("orders", b"..."))

With pytest there are two fixtures, found by themselves: `rocketeer_cluster`, one for the whole session, and
`rocketeer_isolated`, with topics and groups that only this test has:

    async def test_an_order_is_billed(rocketeer_isolated):
        async with rocketeer_isolated.run(app):
            app.producer.send("orders", Order(7))
            ...
"""

from rocketeer.extras import advice

try:
    from rocketeer.testing.cluster import Cluster, cluster
    from rocketeer.testing.isolated import Isolated
except ModuleNotFoundError as error:
    if (text := advice("rocketeer.testing, which runs a broker,", error)) is None:
        raise
    raise ModuleNotFoundError(text, name=error.name) from None

__all__ = ["Cluster", "Isolated", "cluster"]
