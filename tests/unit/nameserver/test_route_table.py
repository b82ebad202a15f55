"""Laws of the route table: whatever brokers do, in whatever order, no route leads to a dead one."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import TopicConfig
from rocketeer.nameserver.route_table import Evicted, LimitReached, MasterAddress, RouteTable, StaleEpoch
from rocketeer.steps import finish

EXPIRY_MS = 120_000
V1, V2 = DataVersion(1, 1), DataVersion(2, 2)


def register(
    table: RouteTable,
    address: str = "10.0.0.1:10911",
    name: str = "a",
    broker_id: int = 0,
    *,
    cluster: str = "C",
    version: DataVersion = V1,
    topics: Iterable[TopicConfig] = (TopicConfig("T", 4, 4, 6),),
    connection: object = None,
    now_ms: int = 0,
) -> MasterAddress | None:
    return finish(
        table.registering(
            cluster=cluster,
            broker_name=name,
            broker_id=broker_id,
            address=address,
            ha_address=address + "/ha",
            version=version,
            topics=topics,
            connection=connection,
            now_ms=now_ms,
        )
    )


def addresses(table: RouteTable, topic: str = "T") -> dict[str, dict[int, str]]:
    route = finish(table.routing(topic))
    return {} if route is None else {broker.broker_name: dict(broker.addresses) for broker in route.brokers}


def lead(table: RouteTable, address: str, epoch: int) -> None:
    """As the leader of a group registers."""
    finish(
        table.registering(
            cluster="C",
            broker_name="a",
            broker_id=0,
            address=address,
            ha_address=None,
            version=V1,
            topics=(TopicConfig("T", 4, 4, 6),),
            connection=None,
            now_ms=0,
            epoch=epoch,
        )
    )


# --- single steps ----------------------------------------------------------------------------------


def evicted_from(table: RouteTable, now_ms: int, expiry_ms: int) -> list[Evicted]:
    return [found for found in table.evicting(now_ms, expiry_ms) if found is not None]


def test_a_registered_topic_has_a_route_and_others_have_none() -> None:
    table = RouteTable()
    register(table, topics=[TopicConfig("T", read_queues=8, write_queues=4, perm=6, sys_flag=1)])
    route = finish(table.routing("T"))
    assert route is not None
    assert [(q.broker_name, q.read_queues, q.write_queues, q.perm, q.sys_flag) for q in route.queues] == [
        ("a", 8, 4, 6, 1)
    ]
    assert addresses(table) == {"a": {0: "10.0.0.1:10911"}}
    assert finish(table.routing("other")) is None


def test_the_leader_of_the_higher_epoch_keeps_its_place_and_its_goodbye_is_its_own() -> None:
    table = RouteTable()
    lead(table, "10.0.0.1:10911", epoch=1)
    lead(table, "10.0.0.2:10911", epoch=2)
    with pytest.raises(StaleEpoch, match="a is led in epoch 2: the leader of epoch 1 is not taken"):
        lead(table, "10.0.0.1:10911", epoch=1)  # it was paused, and has not noticed
    assert not table.unregister(broker_name="a", broker_id=0, address="10.0.0.1:10911")
    assert addresses(table) == {"a": {0: "10.0.0.2:10911"}}
    register(table, "10.0.0.1:10911", broker_id=1)
    assert addresses(table) == {"a": {0: "10.0.0.2:10911", 1: "10.0.0.1:10911"}}
    lead(table, "10.0.0.1:10911", epoch=3)
    assert addresses(table) == {"a": {0: "10.0.0.1:10911"}}


def test_an_unchanged_data_version_only_refreshes_the_time() -> None:
    table = RouteTable()
    register(table, now_ms=0)
    finish(table.wipe_write_perm("a"))
    register(table, topics=[TopicConfig("T", 99, 99, 6), TopicConfig("New")], now_ms=EXPIRY_MS)
    route = finish(table.routing("T"))
    assert route is not None
    assert (route.queues[0].read_queues, route.queues[0].perm) == (4, 4)
    assert finish(table.routing("New")) is None
    assert evicted_from(table, 2 * EXPIRY_MS, EXPIRY_MS) == []


def test_a_new_data_version_changes_queues_and_leaves_the_topics_it_does_not_name() -> None:
    table = RouteTable()
    register(table, topics=[TopicConfig("T", 4, 4), TopicConfig("Other", 1, 1)])
    register(table, version=V2, topics=[TopicConfig("T", 8, 8)])
    route = finish(table.routing("T"))
    assert route is not None
    assert route.queues[0].read_queues == 8
    assert finish(table.routing("Other")) is not None


def test_slaves_tell_no_topics_and_learn_their_master() -> None:
    table = RouteTable()
    assert register(table, "s:1", "a", 1) is None
    assert finish(table.topics()) == []
    register(table, "m:1", "a", 0)
    assert register(table, "s:1", "a", 1, topics=[TopicConfig("X")], version=V2) == MasterAddress(
        "m:1", "m:1/ha"
    )
    assert finish(table.topics()) == ["T"]
    assert addresses(table) == {"a": {0: "m:1", 1: "s:1"}}


def test_the_route_stays_with_the_slaves_when_the_master_goes() -> None:
    table = RouteTable()
    register(table, "m:1", "a", 0)
    register(table, "s:1", "a", 1)
    assert table.unregister(broker_name="a", broker_id=0, address="m:1")
    assert addresses(table) == {"a": {1: "s:1"}}
    assert table.unregister(broker_name="a", broker_id=1, address="s:1")
    assert finish(table.routing("T")) is None
    assert table.clusters() == {}
    assert finish(table.topics()) == []


def test_a_slave_that_becomes_master_has_one_address_entry_and_its_topics_count() -> None:
    table = RouteTable()
    register(table, "s:1", "a", 1)
    register(table, "s:1", "a", 0)
    assert addresses(table) == {"a": {0: "s:1"}}


def test_a_master_that_becomes_a_slave_keeps_the_topics_of_its_name() -> None:
    table = RouteTable()
    register(table, "m:1", "a", 0)
    register(table, "m:1", "a", 1, topics=[])
    assert addresses(table) == {"a": {1: "m:1"}}


def test_a_broker_under_a_new_address_replaces_the_old_one() -> None:
    table = RouteTable()
    register(table, "old:1", connection="old")
    register(table, "new:1", connection="new")
    assert addresses(table) == {"a": {0: "new:1"}}
    assert finish(table.closing("old")) == []
    assert not table.unregister(broker_name="a", broker_id=0, address="old:1")
    assert addresses(table) == {"a": {0: "new:1"}}


def test_a_broker_that_changes_its_name_leaves_nothing_under_the_old_one() -> None:
    table = RouteTable()
    register(table, "x:1", "a")
    register(table, "x:1", "b", topics=[TopicConfig("T")])
    assert addresses(table) == {"b": {0: "x:1"}}
    assert table.clusters() == {"C": ["b"]}


def test_a_broker_that_takes_over_anothers_name_is_asked_for_its_topics() -> None:
    table = RouteTable()
    register(table, "x:1", "a", topics=[TopicConfig("T")])
    register(table, "y:1", "b", topics=[TopicConfig("Y")])
    register(table, "y:1", "a", topics=[TopicConfig("Y")])
    assert addresses(table, "Y") == {"a": {0: "y:1"}}
    assert set(table.alive()) == {"y:1"}


def test_a_name_is_in_the_cluster_its_master_says() -> None:
    table = RouteTable()
    register(table, "m:1", "a", 0, cluster="C1")
    register(table, "s:1", "a", 1, cluster="wrong")
    assert table.clusters() == {"C1": ["a"]}
    register(table, "m:1", "a", 0, cluster="C2")
    assert table.clusters() == {"C2": ["a"]}
    assert dict(table.each_broker())["a"].cluster == "C2"


def test_a_broker_is_evicted_only_after_more_than_the_expiry_without_a_word() -> None:
    table = RouteTable()
    register(table, "a:1", "a", now_ms=0, connection="conn-a")
    register(table, "b:1", "b", now_ms=1)
    assert evicted_from(table, EXPIRY_MS, EXPIRY_MS) == []
    assert evicted_from(table, EXPIRY_MS + 1, EXPIRY_MS) == [("a:1", "conn-a")]
    assert addresses(table) == {"b": {0: "b:1"}}


def test_asking_for_the_data_version_is_a_heartbeat_only_when_it_is_the_same() -> None:
    table = RouteTable()
    register(table, "a:1", now_ms=0, version=V1)
    assert not table.refresh("a:1", V2, 50)
    assert not table.refresh("unknown:1", V1, 50)
    assert table.refresh("a:1", V1, EXPIRY_MS)
    assert evicted_from(table, 2 * EXPIRY_MS, EXPIRY_MS) == []
    assert table.version_of("a:1") == V1
    assert table.version_of("unknown:1") is None


def test_a_closed_connection_takes_its_brokers_along_unless_they_came_back_on_another() -> None:
    table = RouteTable()
    register(table, "a:1", "a", connection="one")
    register(table, "b:1", "b", connection="one")
    register(table, "b:1", "b", connection="two")
    assert finish(table.closing("one")) == ["a:1"]
    assert addresses(table) == {"b": {0: "b:1"}}


def test_wiping_and_adding_write_permission() -> None:
    table = RouteTable()
    topics = [TopicConfig("T", perm=6), TopicConfig("Default", perm=7), TopicConfig("ReadOnly", perm=4)]
    register(table, "a:1", "a", topics=topics)
    register(table, "b:1", "b")

    def perms(name: str) -> dict[str, int]:
        routes = {topic: finish(table.routing(topic)) for topic in finish(table.topics())}
        return {t: q.perm for t, r in routes.items() if r for q in r.queues if q.broker_name == name}

    assert finish(table.wipe_write_perm("a")) == 3
    assert perms("a") == {"T": 4, "Default": 5, "ReadOnly": 4}
    assert perms("b") == {"T": 6}
    assert finish(table.add_write_perm("a")) == 3
    assert perms("a") == {"T": 6, "Default": 6, "ReadOnly": 6}
    assert finish(table.wipe_write_perm("unknown")) == 0


def test_a_topic_can_be_deleted_everywhere_or_in_one_cluster() -> None:
    table = RouteTable()
    register(table, "a:1", "a", cluster="C1")
    register(table, "b:1", "b", cluster="C2")
    table.delete_topic("T", "C1")
    assert addresses(table) == {"b": {0: "b:1"}}
    table.delete_topic("T", "unknown cluster")
    table.delete_topic("T")
    table.delete_topic("unknown topic", "C1")
    assert finish(table.routing("T")) is None
    assert table.clusters() == {"C1": ["a"], "C2": ["b"]}


def test_a_deleted_topic_is_forgotten_by_its_brokers_as_well() -> None:
    """Who registers topics and deletes them again, under new names, must not fill the memory."""
    table = RouteTable()
    for number in range(5):
        register(table, "1:1", "a", topics=many(100, f"round{number}-"), version=DataVersion(number, 7))
        register(table, "2:2", "b", topics=many(100, f"round{number}-"), version=DataVersion(number, 7))
        for topic in many(100, f"round{number}-"):
            table.delete_topic(topic.name, cluster="C" if number == 2 else None)
    assert finish(table.topics()) == []
    assert finish(table.wipe_write_perm("a")) == 0
    assert [len(broker.topics) for broker in table._brokers.values()] == [0, 0]
    register(table, "1:1", "a", topics=many(3), version=DataVersion(9, 9))
    assert finish(table.wipe_write_perm("a")) == 3


def test_topic_lists() -> None:
    table = RouteTable()
    topics = [TopicConfig(name, sys_flag=flag) for name, flag in (("N", 0), ("U", 1), ("S", 2), ("B", 3))]
    register(table, "a:1", "a", cluster="C1", topics=topics)
    register(table, "b:1", "b", cluster="C2", topics=[TopicConfig("N")])
    assert finish(table.topics()) == ["N", "U", "S", "B"]
    assert finish(table.unit_topics()) == ["U", "B"]
    assert finish(table.unit_sub_topics()) == ["S", "B"]
    assert finish(table.unit_sub_topics_outside_units()) == ["S"]
    assert finish(table.topics_of_cluster("C1")) == ["N", "U", "S", "B"]
    assert finish(table.topics_of_cluster("C2")) == ["N"]
    assert finish(table.topics_of_cluster("C3")) == []
    assert table.any_address() == "a:1"


# --- any sequence ----------------------------------------------------------------------------------

ADDRESSES = st.sampled_from([f"h{i}:1" for i in range(4)])
NAMES = st.sampled_from("abc")
IDS = st.integers(0, 2)
CLUSTERS = st.sampled_from(["C1", "C2"])
TOPICS = st.sampled_from(["T1", "T2", "T3"])
VERSIONS = st.builds(DataVersion, st.integers(0, 2), st.just(0))


class AnySequence(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.now_ms = 0
        self.heard_ms: dict[str, int] = {}

    @rule(
        address=ADDRESSES,
        name=NAMES,
        broker_id=IDS,
        cluster=CLUSTERS,
        version=VERSIONS,
        topics=st.lists(TOPICS, unique=True),
        connection=st.integers(0, 2),
    )
    def register(
        self,
        address: str,
        name: str,
        broker_id: int,
        cluster: str,
        version: DataVersion,
        topics: list[str],
        connection: int,
    ) -> None:
        before = self.table.alive().get(address)
        was_same_version = self.table.version_of(address) == version
        master = register(
            self.table,
            address,
            name,
            broker_id,
            cluster=cluster,
            version=version,
            topics=[TopicConfig(topic) for topic in topics],
            connection=connection,
            now_ms=self.now_ms,
        )
        self.heard_ms[address] = self.now_ms
        assert self.table.alive()[address] == (name, broker_id)
        assert dict(self.table.each_broker())[name].addresses[broker_id] == address
        assert self.table.version_of(address) == version
        if broker_id == 0:
            assert master is None
            if not was_same_version or before != (name, 0):
                assert all(name in addresses(self.table, topic) for topic in topics)
        else:
            expected = dict(self.table.each_broker())[name].master
            assert (master.address if master else None) == expected

    @rule(address=ADDRESSES, name=NAMES, broker_id=IDS)
    def unregister(self, address: str, name: str, broker_id: int) -> None:
        was_here = self.table.alive().get(address) == (name, broker_id)
        assert self.table.unregister(broker_name=name, broker_id=broker_id, address=address) == was_here
        if was_here:
            assert address not in self.table.alive()

    @rule(address=ADDRESSES, version=VERSIONS)
    def refresh(self, address: str, version: DataVersion) -> None:
        if self.table.refresh(address, version, self.now_ms):
            self.heard_ms[address] = self.now_ms

    @rule(ms=st.integers(0, EXPIRY_MS))
    def pass_time_and_evict(self, ms: int) -> None:
        self.now_ms += ms
        before = set(self.table.alive())
        evicted = {address for address, _ in evicted_from(self.table, self.now_ms, EXPIRY_MS)}
        assert evicted == {a for a in before if self.heard_ms[a] + EXPIRY_MS < self.now_ms}
        assert set(self.table.alive()) == before - evicted

    @rule(connection=st.integers(0, 2))
    def close(self, connection: int) -> None:
        gone = finish(self.table.closing(connection))
        assert not set(gone) & set(self.table.alive())

    @rule(topic=TOPICS, cluster=st.none() | CLUSTERS)
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, cluster)
        in_cluster = (
            self.table.clusters().get(cluster, []) if cluster else list(dict(self.table.each_broker()))
        )
        assert not set(addresses(self.table, topic)) & set(in_cluster)

    @rule(name=NAMES)
    def toggle_write(self, name: str) -> None:
        assert finish(self.table.wipe_write_perm(name)) == finish(self.table.add_write_perm(name))

    @precondition(lambda self: not self.table.alive())
    @rule()
    def nothing_is_left_of_the_dead(self) -> None:
        assert finish(self.table.topics()) == []
        assert self.table.clusters() == {}
        assert dict(self.table.each_broker()) == {}

    @invariant()
    def every_address_is_alive_and_everyone_alive_has_a_place(self) -> None:
        places = {
            address: (name, broker_id)
            for name, broker in dict(self.table.each_broker()).items()
            for broker_id, address in broker.addresses.items()
        }
        assert places == self.table.alive()

    @invariant()
    def every_topic_has_a_route_to_living_brokers_only(self) -> None:
        for topic in finish(self.table.topics()):
            route = finish(self.table.routing(topic))
            assert route is not None
            assert {queue.broker_name for queue in route.queues} == {b.broker_name for b in route.brokers}
            for broker in route.brokers:
                assert broker.addresses
                assert set(broker.addresses.values()) <= set(self.table.alive())

    @invariant()
    def every_name_is_in_exactly_one_cluster(self) -> None:
        listed = [(name, cluster) for cluster, names in self.table.clusters().items() for name in names]
        assert sorted(listed) == sorted(
            (name, b.cluster) for name, b in dict(self.table.each_broker()).items()
        )


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


PLACE: dict[str, Any] = {
    "cluster": "C", "broker_name": "a", "broker_id": 0, "address": "a:1", "ha_address": None, "connection": None, "now_ms": 0
}  # fmt: skip


def many(count: int, prefix: str = "many") -> list[TopicConfig]:
    return [TopicConfig(f"{prefix}-{number}") for number in range(count)]


def test_a_broker_with_very_many_topics_is_gone_at_once_and_swept_later() -> None:
    table = RouteTable()
    register(table, "a:1", "a", topics=many(1000))
    register(table, "b:1", "b", topics=many(1))
    assert table.unregister(broker_name="a", broker_id=0, address="a:1")
    assert table.needs_sweep
    assert finish(table.routing("many-999")) is None
    assert addresses(table, "many-0") == {"b": {0: "b:1"}}
    assert finish(table.topics()) == ["many-0"]
    finish(table.sweep())
    assert not table.needs_sweep
    assert finish(table.topics()) == ["many-0"]


def test_brokers_that_fall_silent_together_are_evicted_one_a_step() -> None:
    table = RouteTable()
    for number in range(200):
        register(table, f"{number}:1", f"b{number}", topics=many(10), connection=number, now_ms=number % 2)
    alive = 200
    found: list[str] = []
    for each in table.evicting(EXPIRY_MS + 1, EXPIRY_MS):
        assert alive - len(table.alive()) <= 1
        alive = len(table.alive())
        found += [] if each is None else [each.address]
    assert found == [f"{number}:1" for number in range(0, 200, 2)]
    steps = table.evicting(EXPIRY_MS + 2, EXPIRY_MS)
    assert next(steps) == ("1:1", 1)
    register(table, "199:1", "b199", now_ms=EXPIRY_MS)
    assert sum(each is not None for each in steps) == 98
    assert list(table.alive()) == ["199:1"], "it came back meanwhile"


def test_a_broker_that_comes_back_before_it_was_swept_has_what_it_tells_now() -> None:
    table = RouteTable()
    register(table, "a:1", "a", topics=many(1000))
    table.unregister(broker_name="a", broker_id=0, address="a:1")
    steps = table.sweep()
    next(steps)
    register(table, "a:1", "a", topics=many(2), version=V2)
    for _ in steps:
        pass
    assert sorted(finish(table.topics())) == ["many-0", "many-1"]


def test_what_a_later_registration_said_stays_when_an_earlier_one_is_still_read() -> None:
    table = RouteTable()
    finish(table.registering(**PLACE, version=V2, topics=[]))
    slow = table.registering(
        **PLACE, version=DataVersion(7, 7), topics=[TopicConfig("T", 1, 1), TopicConfig("U")]
    )
    quick = table.registering(**PLACE, version=DataVersion(8, 8), topics=[TopicConfig("T", 9, 9)])
    next(slow)
    finish(quick)
    finish(slow)
    route = finish(table.routing("T"))
    assert route is not None
    assert [queue.read_queues for queue in route.queues] == [9]
    assert finish(table.routing("U")) is not None


def test_topics_are_bounded_and_those_that_are_known_take_more_brokers() -> None:
    table = RouteTable(topics_max=2)
    register(table, "a:1", "a", topics=many(2))
    register(table, "b:1", "b", topics=many(2))
    with pytest.raises(LimitReached, match="limitRouteTopics"):
        register(table, "a:1", "a", topics=many(3), version=V2)
    assert sorted(finish(table.topics())) == ["many-0", "many-1"]


def test_brokers_and_routes_are_bounded_and_room_comes_back() -> None:
    table = RouteTable(brokers_max=2, routes_max=3)
    register(table, "a:1", "a", topics=many(2))
    register(table, "b:1", "b", topics=many(1))
    with pytest.raises(LimitReached, match="limitBrokers"):
        register(table, "c:1", "c")
    with pytest.raises(LimitReached, match="limitRoutes"):
        register(table, "a:1", "a", topics=many(3), version=V2)
    assert sorted(finish(table.topics())) == ["many-0", "many-1"]
    table.unregister(broker_name="b", broker_id=0, address="b:1")
    register(table, "a:1", "a", topics=many(3), version=DataVersion(9, 9))
    assert finish(table.routing("many-2")) is not None


def perms(table: RouteTable, *topics: str) -> list[int | None]:
    routes = [finish(table.routing(topic)) for topic in topics]
    return [None if route is None else int(route.queues[0].perm) for route in routes]


@pytest.mark.parametrize(("limit", "value"), [("topics_max", 2), ("routes_max", 2)])
def test_known_topics_change_behind_one_that_finds_no_room(limit: str, value: int) -> None:
    table = RouteTable(**{limit: value})
    register(table, topics=[TopicConfig("a"), TopicConfig("b")])
    changed = [TopicConfig("a", perm=4), TopicConfig("new"), TopicConfig("b", perm=4)]
    with pytest.raises(LimitReached):
        register(table, topics=changed, version=V2)
    assert perms(table, "a", "new", "b") == [4, None, 4]


def test_a_topic_that_found_no_room_is_refused_until_there_is_some() -> None:
    """The version is known by then; what an administrator changed meanwhile stays."""
    table = RouteTable(topics_max=2)
    topics = [TopicConfig("new"), TopicConfig("a")]
    register(table, topics=topics[1:])
    register(table, "b:1", "b", topics=[TopicConfig("b")])
    with pytest.raises(LimitReached):
        register(table, topics=topics, version=V2)
    finish(table.wipe_write_perm("a"))
    for _ in range(2):
        with pytest.raises(LimitReached):
            register(table, topics=topics, version=V2)
    register(table, topics=[TopicConfig("a", perm=4)], version=DataVersion(3, 3))  # announced alone
    with pytest.raises(LimitReached):
        register(table, topics=topics, version=DataVersion(3, 3))
    table.delete_topic("b")
    register(table, topics=topics, version=DataVersion(3, 3))
    assert perms(table, "a", "new") == [4, 6]
    finish(table.wipe_write_perm("a"))
    register(table, topics=topics, version=DataVersion(3, 3))
    assert perms(table, "a", "new") == [4, 4], "nothing is read again"
