import pytest

from rocketeer.client.core.fault import FaultTable, away_ms
from rocketeer.client.core.routes import RouteCache, TopicRoutes
from rocketeer.client.core.selectors import QueueById, by_hash, by_random, next_queue
from rocketeer.errors import ClientError
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData, QueueData, Route
from support.clock import ManualClock

QUEUES = [MessageQueue("T", "a", number) for number in range(5)]
MESSAGE = Message("T", b"x")


def known(*names: str) -> TopicRoutes:
    route = Route(
        tuple(QueueData(name, 2, 2, 6) for name in names),
        tuple(BrokerData("c", name, {0: f"{name}:1"}) for name in names),
    )
    return RouteCache().put("T", route)


@pytest.mark.parametrize(
    ("key", "queue_id"),
    [
        ("TagA", 2598919 % 5),
        ("polygenelubricants", 3),  # the smallest int of all: |-2147483648 % 5| in Java
        (7, 2),
        (-7, 2),
        ((1 << 32) + 2, 3),
    ],
)
def test_the_hash_chooses_the_queue_java_would_choose(key: object, queue_id: int) -> None:
    assert by_hash(QUEUES, MESSAGE, key).queue_id == queue_id


def test_the_hash_takes_the_messages_own_sharding_key() -> None:
    keyed = Message("T", b"x", sharding_key="TagA")
    assert by_hash(QUEUES, keyed) == by_hash(QUEUES, MESSAGE, "TagA")
    with pytest.raises(ClientError, match="sharding_key"):
        by_hash(QUEUES, MESSAGE)
    with pytest.raises(ClientError, match="text or a whole number"):
        by_hash(QUEUES, MESSAGE, 1.5)


def test_random_reaches_every_queue() -> None:
    assert {by_random(QUEUES, MESSAGE) for _ in range(500)} == set(QUEUES)


@pytest.mark.parametrize(
    ("latency_ms", "away"),
    [(0, 0), (549, 0), (550, 30_000), (1_000, 60_000), (2_000, 120_000), (3_000, 180_000), (15_000, 600_000)],
)
def test_the_slower_the_longer_away(latency_ms: int, away: int) -> None:
    assert away_ms(latency_ms) == away


def test_an_error_counts_as_30_seconds() -> None:
    clock = ManualClock()
    faults = FaultTable(clock)
    faults.report("a", 1, failed=True)
    clock.advance(ms=599_999)
    assert not faults.available("a")
    clock.advance(ms=1)
    assert faults.available("a")


def test_with_all_brokers_away_the_less_bad_half_takes_turns() -> None:
    clock = ManualClock()
    faults = FaultTable(clock)
    for name, latency_ms in (("a", 900), ("b", 600), ("c", 2500), ("d", 700)):
        faults.report(name, latency_ms, failed=False)
    used = {next_queue(known("a", "b", "c", "d"), None, faults).broker_name for _ in range(20)}
    assert used == {"b", "d"}


def test_an_away_broker_that_left_the_topic_is_forgotten() -> None:
    faults = FaultTable(ManualClock())
    faults.report("gone", 600, failed=False)
    faults.report("a", 900, failed=False)
    assert next_queue(known("a"), None, faults).broker_name == "a"
    assert faults.available("gone")


def queues_of(counts: dict[str, int]) -> list[MessageQueue]:
    return [MessageQueue("T", name, number) for name, count in counts.items() for number in range(count)]


def test_an_id_stays_with_its_broker_when_queues_are_added() -> None:
    before, after = QueueById(queues_of({"a": 4, "b": 4})), QueueById(queues_of({"a": 4, "b": 5}))
    chosen = [(before.choose(hashed), after.choose(hashed)) for hashed in range(-500, 500)]
    assert all(old.broker_name == new.broker_name for old, new in chosen)
    assert len({old for old, _ in chosen}) == 8, "every queue has its share"


def test_a_new_broker_takes_its_share_and_leaves_the_rest() -> None:
    before, after = QueueById(queues_of({"a": 2, "b": 2})), QueueById(queues_of({"a": 2, "b": 2, "c": 2}))
    moved = 0
    for hashed in range(3_000):
        old, new = before.choose(hashed), after.choose(hashed)
        assert new == old or new.broker_name == "c"
        moved += new != old
    assert 600 < moved < 1_400
