"""A whole cluster for your own tests: name server and broker, in this process, on free ports, in a folder of its own.

    from rocketeer import Message, Producer
    from rocketeer.testing import cluster

    with cluster() as running:
        with Producer("shop", nameserver=running.nameserver) as producer:
            producer.send(Message("orders", b"..."))

With pytest there is a fixture of the same kind, `rocketeer_cluster` (one for the whole session; use a topic of
your own in each test). It is found by itself.
"""

from rocketeer.extras import advice

try:
    from rocketeer.testing.cluster import Cluster, cluster
except ModuleNotFoundError as error:
    if (text := advice("rocketeer.testing, which runs a broker,", error)) is None:
        raise
    raise ModuleNotFoundError(text, name=error.name) from None

__all__ = ["Cluster", "cluster"]
