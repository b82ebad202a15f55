"""Laws of asking many things of a few brokers, with scripted answers."""

import pytest

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import TRIES_MAX, CircuitBreaker, each_broker, on_each_broker
from rocketeer.admin.plans.nameservers import kv_of_each, put_kv_anywhere
from rocketeer.admin.results import ClusterBroker
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.effects import Call, Parallel, Plan
from rocketeer.clock import SystemClock
from rocketeer.errors import BadFrame, BrokerRefused, CallTimeout, ConnectFailed, NoNameServer, RemotingError
from rocketeer.protocol.command import reply, request

A = ClusterBroker("c", "broker-a", 0, "10.0.0.1:10911")
B = ClusterBroker("c", "broker-b", 0, "10.0.0.2:10911")


def context() -> AdminContext:
    return AdminContext(NameServers(["10.0.0.9:9876"]), RouteCache(), SystemClock(), 1.0)


def asked(circuit: CircuitBreaker, error: RemotingError | None) -> bool:
    """Ask once; whether a call was made. With `error` it fails, else it is answered."""
    plan = circuit.ask(A, 28)
    try:
        call = next(plan)
    except RemotingError:
        return False
    assert isinstance(call, Call)
    with pytest.raises((StopIteration, RemotingError)):
        plan.throw(error) if error is not None else plan.send(reply(request(28)))
    return True


def test_a_broker_without_a_connection_is_asked_once() -> None:
    circuit = CircuitBreaker(context())
    assert [asked(circuit, ConnectFailed(A.address, "refused")) for _ in range(3)] == [True, False, False]
    (failure,) = circuit.failures
    assert failure.who == "broker-a (10.0.0.1:10911)"


def test_a_late_broker_has_some_tries() -> None:
    circuit = CircuitBreaker(context())
    late = CallTimeout(A.address, 28, 1.0)
    assert [asked(circuit, late) for _ in range(TRIES_MAX + 2)] == [True] * TRIES_MAX + [False] * 2


def test_who_answers_is_never_given_up() -> None:
    circuit = CircuitBreaker(context())
    assert all(asked(circuit, None) for _ in range(10))
    assert circuit.failures == ()


def outcome(plan: Plan[object], *results: object) -> object:
    """The end of a plan that asks side by side once."""
    assert isinstance(next(plan), Parallel)
    with pytest.raises(StopIteration) as end:
        plan.send(list(results))
    return end.value.value


def nothing(broker: ClusterBroker) -> Plan[str]:
    yield Call(broker.address, request(28), 1.0)
    return ""


def test_one_failure_is_named_and_the_other_answers_stand() -> None:
    found = outcome(each_broker([A, B], nothing), "fine", CallTimeout(B.address, 28, 1.0))  # type: ignore[arg-type]
    assert found.answers == {A: "fine"}  # type: ignore[attr-defined]
    assert [each.who for each in found.failures] == ["broker-b (10.0.0.2:10911)"]  # type: ignore[attr-defined]


def test_a_change_nobody_took_is_an_error() -> None:
    plan = on_each_broker([A], nothing)
    next(plan)
    with pytest.raises(CallTimeout):
        plan.send([CallTimeout(A.address, 17, 1.0)])


def test_a_silent_name_server_costs_its_share_of_the_time_and_one_that_answers_is_enough() -> None:
    servers = [f"10.0.0.{number}:9876" for number in (7, 8, 9)]
    plan = put_kv_anywhere(
        AdminContext(NameServers(servers), RouteCache(), SystemClock(), 3.0), "N", "k", "v"
    )
    together = next(plan)
    assert isinstance(together, Parallel)
    assert [next(each).timeout_s for each in together.plans] == [1.0, 1.0, 1.0]
    refused = BrokerRefused(1, "full", broker=servers[1])
    with pytest.raises(StopIteration):
        plan.send([CallTimeout(servers[0], 100, 1.0), refused, reply(request(100))])


def test_a_value_no_name_server_takes_is_an_error() -> None:
    servers = ["10.0.0.7:9876", "10.0.0.8:9876"]
    for outcomes, error in (
        ([CallTimeout(servers[0], 100, 1.0), BrokerRefused(1, "full", broker=servers[1])], BrokerRefused),
        ([CallTimeout(each, 100, 1.0) for each in servers], NoNameServer),
    ):
        plan = put_kv_anywhere(
            AdminContext(NameServers(servers), RouteCache(), SystemClock(), 2.0), "N", "k", "v"
        )
        next(plan)
        with pytest.raises(error):
            plan.send(outcomes)


def test_what_no_name_server_says_is_an_error_and_no_answer() -> None:
    servers = ["10.0.0.7:9876", "10.0.0.8:9876"]
    for make in (
        lambda context: put_kv_anywhere(context, "N", "k", "v"),
        lambda context: kv_of_each(context, "N", "k"),
    ):
        plan = make(AdminContext(NameServers(servers), RouteCache(), SystemClock(), 2.0))
        next(plan)
        with pytest.raises(BadFrame):
            plan.send([BadFrame("not a frame"), reply(request(100))])
