import itertools

from rocketeer.client.core.routes import RouteCache, publish_queues, subscribe_queues
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData, QueueData, Route


def broker(name: str, **addresses: str) -> BrokerData:
    return BrokerData("c", name, {int(number[1:]): text for number, text in addresses.items()})


A = broker("a", _0="10.0.0.1:10911", _1="10.0.0.2:10911")
B = broker("b", _0="10.0.0.3:10911")


def queue(name: str, queue_id: int) -> MessageQueue:
    return MessageQueue("T", name, queue_id)


def test_sends_go_to_writable_queues_of_brokers_with_a_master() -> None:
    slave_only = broker("c", _1="10.0.0.9:10911")
    route = Route(
        queues=(
            QueueData("b", 2, 1, 6),
            QueueData("a", 2, 2, 6),
            QueueData("c", 4, 4, 6),
            QueueData("d", 4, 4, 4),
        ),
        brokers=(B, A, slave_only, broker("d", _0="10.0.0.4:10911")),
    )
    assert publish_queues("T", route) == (queue("a", 0), queue("a", 1), queue("b", 0))


def test_reads_come_from_readable_queues_sorted_as_all_members_sort_them() -> None:
    route = Route(queues=(QueueData("b", 1, 1, 4), QueueData("a", 2, 1, 6), QueueData("x", 9, 9, 2)))
    assert subscribe_queues("T", route) == (queue("a", 0), queue("a", 1), queue("b", 0))


def test_an_order_configuration_names_the_queues_to_send_to() -> None:
    route = Route(queues=(QueueData("a", 4, 4, 6),), brokers=(A,), order_conf="b:1;a:2")
    assert publish_queues("T", route) == (queue("b", 0), queue("a", 0), queue("a", 1))


def test_the_reader_gets_the_suggested_broker_or_the_nearest_thing() -> None:
    cache = RouteCache()
    cache.put("T", Route(brokers=(A, B)))
    assert cache.master("a") == "10.0.0.1:10911"
    assert cache.address("a") == ("10.0.0.1:10911", False)
    assert cache.address("a", 1) == ("10.0.0.2:10911", True)
    assert cache.address("b", 1) == ("10.0.0.3:10911", False)
    assert cache.address("nobody") is None


def test_the_newest_word_about_a_broker_counts_whichever_topic_it_came_with() -> None:
    """A leader that went and came back: the route of one topic never saw the other leader."""
    cache, elsewhere = RouteCache(), broker("a", _0="10.0.0.7:10911")
    cache.put("T", Route(brokers=(A,)))
    cache.put("Other", Route(brokers=(elsewhere,)))
    assert cache.master("a") == "10.0.0.7:10911"
    cache.put("T", Route(brokers=(A,)))
    assert cache.master("a") == "10.0.0.1:10911"


def test_a_changed_route_is_told_once_and_keeps_the_turn_of_the_queues() -> None:
    cache = RouteCache()
    heard: list[str] = []
    cache.on_change.append(lambda topic, route: heard.append(topic))
    one = Route(queues=(QueueData("a", 4, 4, 6),), brokers=(A,))
    first = cache.put("T", one)
    turn = first.next_index()
    assert cache.put("T", one) is first
    second = cache.put("T", Route(queues=(QueueData("a", 8, 8, 6),), brokers=(A,)))
    assert second.next_index() > turn
    assert heard == ["T", "T"]


def test_brokers_in_no_route_are_forgotten() -> None:
    cache = RouteCache()
    cache.put("T", Route(brokers=(A,)))
    cache.put("U", Route(brokers=(B,)))
    cache.put("T", Route(brokers=(broker("a", _0="10.0.0.1:10911"),)))
    cache.drop("U")
    cache.forget_lost_brokers()
    assert cache.brokers() == {"a": {0: "10.0.0.1:10911"}}


def test_queues_take_turns() -> None:
    cache = RouteCache()
    known = cache.put("T", Route(queues=(QueueData("a", 4, 4, 6),), brokers=(A,)))
    turns = [known.next_index() % 4 for _ in range(8)]
    assert sorted(turns[:4]) == [0, 1, 2, 3]
    assert all((b - a) % 4 == 1 for a, b in itertools.pairwise(turns))
