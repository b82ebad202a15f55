"""A consumer's memory does not grow with what it has seen, sends that wait cost little: the small forms of
`rocketeer bench client --memory` and `--gather`."""

from rocketeer.bench.clients.fan_out import gathered
from rocketeer.bench.clients.memory import GROWTH_BYTES_MAX, growth_bytes, stored_and_consumed
from support.cluster import ServerCluster


def test_fifty_thousand_messages_leave_nothing_behind(cluster: ServerCluster, topic: str) -> None:
    said: list[str] = []
    samples = stored_and_consumed(cluster, topic, 50_000, 1024, said.append)
    assert samples[-1].messages == 50_000
    # Kept whole the messages would take 60 MB, keeping a hundred bytes of each 5 MB more than is allowed.
    assert growth_bytes(samples) <= GROWTH_BYTES_MAX, "\n".join(said)


def test_far_more_sends_than_may_be_in_flight_are_gathered_in_little_time_and_memory(
    cluster: ServerCluster, topic: str
) -> None:
    """`make fan-out` has 200,000 of them."""
    found = gathered(cluster, topic, 40_000, 100)
    assert found.stored == 40_000
    assert found.faults() == []
