import pytest

from rocketeer.client.core.nameservers import NameServers, parse_addresses
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.effects import Call
from rocketeer.client.plans.routes import fetch_route, find_route, find_route_or_default, refresh_route
from rocketeer.errors import BrokerRefused, ConnectFailed, NoNameServer, NoRoute
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command
from support.bodies import encode_route
from support.plans import Answer, Script

ROUTE = Route((QueueData("a", 8, 8, 6),), (BrokerData("c", "a", {0: "10.0.0.1:10911"}),))
FOUND = Command(code=0, body=encode_route(ROUTE, strict=True))
MISSING = Command(code=ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info")
DEAD = ConnectFailed("x:1", "refused")


def test_a_dead_name_server_is_skipped_and_not_asked_first_again() -> None:
    servers = NameServers(["dead:1", "alive:2"])
    script = Script([DEAD, FOUND, FOUND])
    assert script.run(fetch_route("T", servers, 3)) == ROUTE
    script.run(fetch_route("T", servers, 3))
    assert script.addresses == ["dead:1", "alive:2", "alive:2"]


def test_a_name_server_that_knows_nothing_yet_does_not_hide_the_others() -> None:
    script = Script([MISSING, FOUND])
    assert script.run(fetch_route("T", NameServers(["new:1", "old:2"]), 3)) == ROUTE


def test_no_answer_at_all_names_everyone_who_was_asked() -> None:
    with pytest.raises(NoNameServer, match="no name server answered") as raised:
        Script([DEAD, DEAD]).run(fetch_route("T", NameServers(["a:1", "b:2"]), 3))
    assert raised.value.asked == ("a:1", "b:2")


def test_a_silent_name_server_gets_its_share_of_the_time_only() -> None:
    script = Script([DEAD, DEAD, FOUND])
    script.run(fetch_route("T", NameServers(["a:1", "b:2", "c:3"]), 6))
    assert [effect.timeout_s for effect in script.effects if isinstance(effect, Call)] == [2, 2, 2]


def test_no_route_names_the_topic_and_who_was_asked() -> None:
    with pytest.raises(NoRoute, match=r"'Orders'.*ns:9876"):
        Script([MISSING]).run(find_route("Orders", RouteCache(), NameServers(["ns:9876"]), 3))


def test_a_name_server_that_refuses_is_not_taken_for_a_missing_topic() -> None:
    with pytest.raises(BrokerRefused, match="broken"):
        Script([Command(code=1, remark="broken")]).run(fetch_route("T", NameServers(["ns:1"]), 3))


def test_a_topic_nobody_has_gets_the_default_topics_brokers() -> None:
    routes = RouteCache()
    script = Script([MISSING, FOUND])
    plan = find_route_or_default(
        "New", routes, NameServers(["ns:1"]), 3, default_topic="TBW102", default_queues=4
    )
    known = script.run(plan)
    assert known.guessed
    assert [(queue.topic, queue.queue_id) for queue in known.publish] == [("New", n) for n in range(4)]
    assert [command.ext["topic"] for command in script.commands] == ["New", "TBW102"]
    assert routes.get("New") is known


def test_without_a_default_topic_the_error_says_to_create_the_topic() -> None:
    plan = find_route_or_default(
        "New", RouteCache(), NameServers(["ns:1"]), 3, default_topic="TBW102", default_queues=4
    )
    with pytest.raises(NoRoute, match=r"TBW102.*create it"):
        Script([MISSING, MISSING]).run(plan)


def test_a_consumer_does_not_take_a_guess_for_a_route() -> None:
    routes = RouteCache()
    routes.put("T", Route(), guessed=True)
    known = Script([FOUND]).run(find_route("T", routes, NameServers(["ns:1"]), 3))
    assert not known.guessed


def test_a_known_route_asks_nobody() -> None:
    routes = RouteCache()
    known = routes.put("T", ROUTE)
    assert Script([]).run(find_route("T", routes, NameServers(["ns:1"]), 3)) is known


@pytest.mark.parametrize("answer", [MISSING, FOUND])
def test_a_refresh_never_loses_a_route(answer: Answer) -> None:
    routes = RouteCache()
    routes.put("T", ROUTE)
    Script([answer]).run(refresh_route("T", routes, NameServers(["ns:1"]), 3))
    known = routes.get("T")
    assert known is not None
    assert known.route == ROUTE


def test_addresses_are_read_in_every_usual_form() -> None:
    assert parse_addresses("a:1;b:2") == ("a:1", "b:2")
    assert parse_addresses(["a:1", "b:2 ", "a:1"]) == ("a:1", "b:2")
    assert parse_addresses(" a:1 , b:2;") == ("a:1", "b:2")


def test_no_address_says_what_to_do() -> None:
    with pytest.raises(NoNameServer, match="NAMESRV_ADDR"):
        NameServers([]).in_turn()


def test_a_new_list_from_the_address_server_replaces_the_old_one() -> None:
    servers = NameServers(["a:1"])
    assert servers.replace(["b:2", "c:3"])
    assert not servers.replace([])
    assert set(servers.in_turn()) == {"b:2", "c:3"}
