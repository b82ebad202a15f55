"""A consumer's memory does not grow with what it has seen: the small form of `rocketeer bench client --memory`."""

from rocketeer.bench.clients.memory import GROWTH_BYTES_MAX, growth_bytes, stored_and_consumed
from support.cluster import Cluster


def test_fifty_thousand_messages_leave_nothing_behind(cluster: Cluster, topic: str) -> None:
    said: list[str] = []
    samples = stored_and_consumed(cluster, topic, 50_000, 1024, said.append)
    assert samples[-1].messages == 50_000
    # Kept whole the messages would take 60 MB, keeping a hundred bytes of each 5 MB more than is allowed.
    assert growth_bytes(samples) <= GROWTH_BYTES_MAX, "\n".join(said)
