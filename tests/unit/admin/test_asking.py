"""Laws of asking many things of a few brokers, with scripted answers."""

import pytest

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import TRIES_MAX, Reachable, each_broker, on_each_broker
from rocketeer.admin.results import Broker
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.effects import Call, Parallel, Plan
from rocketeer.clock import SystemClock
from rocketeer.errors import CallTimeout, ConnectFailed, RemotingError
from rocketeer.protocol.command import reply, request

A = Broker("c", "broker-a", 0, "10.0.0.1:10911")
B = Broker("c", "broker-b", 0, "10.0.0.2:10911")


def context() -> AdminContext:
    return AdminContext(NameServers(["10.0.0.9:9876"]), RouteCache(), SystemClock(), 1.0)


def asked(reach: Reachable, error: RemotingError | None) -> bool:
    """Ask once; whether a call was made. With `error` it fails, else it is answered."""
    plan = reach.ask(A, 28)
    try:
        call = next(plan)
    except RemotingError:
        return False
    assert isinstance(call, Call)
    with pytest.raises((StopIteration, RemotingError)):
        plan.throw(error) if error is not None else plan.send(reply(request(28)))
    return True


def test_a_broker_without_a_connection_is_asked_once() -> None:
    reach = Reachable(context())
    assert [asked(reach, ConnectFailed(A.address, "refused")) for _ in range(3)] == [True, False, False]
    (failure,) = reach.failures
    assert failure.who == "broker-a (10.0.0.1:10911)"


def test_a_late_broker_has_some_tries() -> None:
    reach = Reachable(context())
    late = CallTimeout(A.address, 28, 1.0)
    assert [asked(reach, late) for _ in range(TRIES_MAX + 2)] == [True] * TRIES_MAX + [False] * 2


def test_who_answers_is_never_given_up() -> None:
    reach = Reachable(context())
    assert all(asked(reach, None) for _ in range(10))
    assert reach.failures == ()


def outcome(plan: Plan[object], *results: object) -> object:
    """The end of a plan that asks side by side once."""
    assert isinstance(next(plan), Parallel)
    with pytest.raises(StopIteration) as end:
        plan.send(list(results))
    return end.value.value


def nothing(broker: Broker) -> Plan[str]:
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
