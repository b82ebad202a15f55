"""Laws of the client table: who is a member, whose subscription counts, who hears of a change."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from rocketeer.broker.clients import EXPIRY_MS, GROUPS_A_STEP, ClientIdentity, ClientTable, Notice
from rocketeer.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, Subscription
from rocketeer.steps import finish

NOW = 1_000_000


def beat(
    table: ClientTable[str],
    group: str,
    connection: str,
    subscriptions: Iterable[Subscription] = (Subscription("T"),),
    *,
    now_ms: int = NOW,
    client_id: str | None = None,
    model: MessageModel = MessageModel.CLUSTERING,
) -> list[Notice[str]]:
    notices = table.consumer_heartbeat(
        group,
        connection,
        ClientIdentity(client_id or f"id-{connection}", "JAVA", 409),
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=model,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        subscriptions=subscriptions,
        now_ms=now_ms,
    )
    return listed(notices)


def listed(notices: Iterable[Notice[str]]) -> list[Notice[str]]:
    """With those who are members now."""
    return [Notice(group, list(connections)) for group, connections in notices]


def closed(table: ClientTable[str], connection: str) -> list[Notice[str]]:
    return [notice for notice in table.leaving(connection) if notice is not None]


def test_everybody_hears_of_a_new_member_and_nobody_of_a_regular_heartbeat() -> None:
    table: ClientTable[str] = ClientTable()
    assert beat(table, "G", "a") == [Notice("G", ["a"])]
    assert beat(table, "G", "a") == []
    assert beat(table, "G", "b") == [Notice("G", ["a", "b"])]
    assert beat(table, "H", "a") == [Notice("H", ["a"])]


def test_those_who_stay_hear_of_those_who_go() -> None:
    table: ClientTable[str] = ClientTable()
    for connection in "abc":
        beat(table, "G", connection)
    assert listed(table.unregister_consumer("G", "a")) == [Notice("G", ["b", "c"])]
    assert table.unregister_consumer("G", "a") == []
    assert listed(closed(table, "b")) == [Notice("G", ["c"])]
    assert closed(table, "c") == []
    assert table.consumer("G") is None


def test_a_closed_connection_leaves_all_its_groups() -> None:
    table: ClientTable[str] = ClientTable()
    for group in ("G", "H"):
        beat(table, group, "a")
        beat(table, group, "b")
    table.producer_heartbeat("P", "a", ClientIdentity("x", "JAVA", 409), now_ms=NOW)
    assert listed(closed(table, "a")) == [Notice("G", ["b"]), Notice("H", ["b"])]
    assert table.producers_of("P") == []


def test_the_newest_version_of_a_subscription_stays() -> None:
    table: ClientTable[str] = ClientTable()
    new, old = Subscription("T", "new", version=2), Subscription("T", "old", version=1)
    beat(table, "G", "a", [new])
    assert beat(table, "G", "b", [old]) == [Notice("G", ["a", "b"])], "because b came"
    assert table.subscription("G", "T") == new
    newer = Subscription("T", "newer", version=3)
    assert beat(table, "G", "a", [newer]) == [], "an expression moves no queue"
    assert table.subscription("G", "T") == newer


def test_a_changed_set_of_topics_notifies_the_group() -> None:
    table: ClientTable[str] = ClientTable()
    beat(table, "G", "a", [Subscription("T")])
    assert beat(table, "G", "a", [Subscription("T"), Subscription("U")]) == [Notice("G", ["a"])]
    assert beat(table, "G", "a", [Subscription("U")]) == [Notice("G", ["a"])]
    assert table.subscription("G", "T") is None
    assert finish(table.groups_subscribed_to("U")) == ["G"]


def test_the_last_heartbeat_says_how_the_group_consumes() -> None:
    table: ClientTable[str] = ClientTable()
    beat(table, "G", "a")
    beat(table, "G", "b", model=MessageModel.BROADCASTING)
    assert table.model("G") is MessageModel.BROADCASTING
    assert table.model("H") is None


def test_a_client_counts_once_however_many_connections_it_has() -> None:
    table: ClientTable[str] = ClientTable()
    beat(table, "G", "old", client_id="c")
    beat(table, "G", "new", client_id="c")
    beat(table, "G", "other", client_id="d")
    group = table.consumer("G")
    assert group is not None
    assert group.client_ids() == ["c", "d"]
    assert group.connection_of("d") == "other"
    assert group.connection_of("e") is None


def test_silence_for_two_minutes_is_death() -> None:
    table: ClientTable[str] = ClientTable()
    beat(table, "G", "a", now_ms=NOW)
    beat(table, "G", "b", now_ms=NOW + 1)
    table.producer_heartbeat("P", "a", ClientIdentity("x", "JAVA", 409), now_ms=NOW)
    assert finish(table.expiring(NOW + EXPIRY_MS)) == ([], [])
    dead, notices = finish(table.expiring(NOW + EXPIRY_MS + 1))
    assert (dead, listed(notices)) == (["a"], [Notice("G", ["b"])])
    assert table.producers_of("P") == []
    assert finish(table.expiring(NOW + EXPIRY_MS + 2)) == (["b"], [])
    assert not table.consumers
    assert not table.producers


def test_many_that_fall_silent_together_are_removed_a_few_a_step() -> None:
    table: ClientTable[str] = ClientTable()
    identity = ClientIdentity("x", "JAVA", 409)
    for number in range(1_000):
        table.producer_heartbeat("P", f"{number}", identity, now_ms=NOW)
        beat(table, "G", f"{number}", client_id=f"c{number}")
    beat(table, "G", "alive", now_ms=NOW + 1)
    left = table.memberships
    steps = table.expiring(NOW + EXPIRY_MS + 1)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            dead, notices = end.value
            break
        assert left - table.memberships <= GROUPS_A_STEP
        left = table.memberships
    assert len(dead) == 1_000
    assert listed(notices) == [Notice("G", ["alive"])], "one notice, however many left"
    assert table.memberships == 1


def test_who_speaks_while_silent_ones_are_looked_for_stays() -> None:
    table: ClientTable[str] = ClientTable()
    for number in range(200):
        beat(table, "G", f"{number}", client_id=f"c{number}")
    steps = table.expiring(NOW + EXPIRY_MS + 1)
    next(steps)
    beat(table, "G", "199", now_ms=NOW + EXPIRY_MS)
    assert "199" not in finish(steps).connections
    assert list(table.consumers["G"].members) == ["199"]


GROUPS = ["G", "H"]
TOPICS = ["T", "U", "V"]
Action = tuple[str, str, str, dict[str, int]]
action: st.SearchStrategy[Action] = st.one_of(
    st.tuples(
        st.just("beat"),
        st.sampled_from(GROUPS),
        st.sampled_from("abcd"),
        st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 5)),
    ),
    st.tuples(st.just("leave"), st.sampled_from(GROUPS), st.sampled_from("abcd"), st.just({})),
    st.tuples(st.just("close"), st.just(""), st.sampled_from("abcd"), st.just({})),
    st.tuples(st.just("scan"), st.just(""), st.just(""), st.just({})),
)


@given(st.lists(st.tuples(action, st.integers(0, 80_000)), max_size=40))
def test_exactly_the_members_hear_of_exactly_the_changes(
    history: list[tuple[Action, int]],
) -> None:
    table: ClientTable[str] = ClientTable()
    now_ms = NOW

    def shape() -> dict[str, tuple[list[str], set[str]]]:
        return {name: (list(info.members), set(info.subscriptions)) for name, info in table.consumers.items()}

    for (kind, group, connection, topics), passed_ms in history:
        now_ms += passed_ms
        before = shape()
        if kind == "beat":
            told = [Subscription(topic, version=version) for topic, version in topics.items()]
            notices = beat(table, group, connection, told, now_ms=now_ms)
            assert set(table.consumers[group].subscriptions) == set(topics)
        elif kind == "leave":
            notices = table.unregister_consumer(group, connection)
        elif kind == "close":
            notices = closed(table, connection)
        else:
            notices = finish(table.expiring(now_ms)).notices
            for info in table.consumers.values():
                assert all(now_ms - member.seen_ms <= EXPIRY_MS for member in info.members.values())
        after = shape()
        changed = {name for name in after if after[name] != before.get(name)}
        assert {notice.group for notice in notices} == changed, "a group that vanished has nobody to tell"
        assert all(list(notice.connections) == after[notice.group][0] for notice in notices)
        assert all(members for members, _ in after.values()), "a group without a member does not exist"


def test_a_connection_that_left_all_its_groups_is_forgotten() -> None:
    table: ClientTable[str] = ClientTable()
    identity = ClientIdentity("x", "JAVA", 409)
    for group in ("G", "H"):
        beat(table, group, "a")
        table.producer_heartbeat(group, "a", identity, now_ms=NOW)
    assert table.group_count("a") == 4
    table.unregister_consumer("G", "a")
    table.unregister_producer("G", "a")
    assert table.group_count("a") == 2
    finish(table.expiring(NOW + EXPIRY_MS + 1))
    assert table.group_count("a") == 0
    assert closed(table, "a") == []


def test_a_connection_that_calls_itself_otherwise_each_time_is_known_by_one_id() -> None:
    table: ClientTable[str] = ClientTable()
    for number in range(100):
        for group in ("P", "Q"):
            identity = ClientIdentity(f"id{number}", "JAVA", 409)
            table.producer_heartbeat(group, "a", identity, now_ms=NOW)
    assert [table.producer_connection(f"id{number}") for number in (0, 98, 99)] == [None, None, "a"]
    table.producer_heartbeat("P", "b", ClientIdentity("id99", "JAVA", 409), now_ms=NOW)
    closed(table, "a")
    assert table.producer_connection("id99") == "b", "who has the id now keeps it"
    closed(table, "b")
    assert not any(table.producer_connection(f"id{number}") for number in range(100))
    assert not table._producer_ids
    assert not table._ids_of_producers
