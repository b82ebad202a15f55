"""The two drivers run the same plans to the same end."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rocketeer.client.aio.drivers import AsyncDriver
from rocketeer.client.plans.effects import Call, Oneway, Parallel, Plan, Shared, Sleep
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.errors import ClientClosed, ConnectFailed, RemotingError
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, request
from rocketeer.remoting.client import RemotingClient
from support.scripted_broker import ScriptedBroker, scripted_broker, silence

Run = Callable[[Callable[[], Plan[Any]]], Any]


@pytest.fixture(scope="module")
def peer() -> Iterator[ScriptedBroker]:
    with scripted_broker({RequestCode.VIEW_MESSAGE_BY_ID: silence}) as started:
        yield started


@pytest.fixture(params=["blocking", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    def blocking(make: Callable[[], Plan[Any]]) -> Any:
        driver = BlockingDriver()
        try:
            return driver.run(make())
        finally:
            driver.close()

    def on_asyncio(make: Callable[[], Plan[Any]]) -> Any:
        async def main() -> Any:
            async with RemotingClient() as client:
                return await AsyncDriver(client).run(make())

        return asyncio.run(main())

    return blocking if request.param == "blocking" else on_asyncio


def beat() -> Command:
    return request(RequestCode.HEART_BEAT)


def test_a_call_brings_its_reply(run: Run, peer: ScriptedBroker) -> None:
    def plan() -> Plan[int]:
        first: Command = yield Call(peer.address, beat(), 3)
        yield Oneway(peer.address, beat())
        yield Sleep(0.001)
        second: Command = yield Call(peer.address, beat(), 3)
        return first.code + second.code

    assert run(plan) == 0


def test_what_goes_wrong_is_raised_inside_the_plan(run: Run, peer: ScriptedBroker) -> None:
    def plan() -> Plan[list[str]]:
        seen = []
        for address, code in (("127.0.0.1:9", 34), ("no address", 34), (peer.address, 33)):
            try:
                yield Call(address, request(code), 0.2)
            except RemotingError as error:
                seen.append(type(error).__name__)
        return seen

    assert run(plan) == ["ConnectFailed", "ConnectFailed", "CallTimeout"]


def test_plans_side_by_side_bring_each_its_result_or_its_error(run: Run, peer: ScriptedBroker) -> None:
    def one(number: int) -> Plan[int]:
        yield Call("127.0.0.1:9" if number == 3 else peer.address, beat(), 3)
        return number

    def plan() -> Plan[list[Any]]:
        outcomes: list[Any] = yield Parallel([one(number) for number in range(9)], limit=4)
        return [each if isinstance(each, int) else type(each).__name__ for each in outcomes]

    assert run(plan) == [0, 1, 2, "ConnectFailed", 4, 5, 6, 7, 8]


def test_plans_side_by_side_do_not_wait_for_each_other(run: Run, peer: ScriptedBroker) -> None:
    def waits() -> Plan[None]:
        yield Sleep(0.3)

    def plan() -> Plan[float]:
        started_s = time.monotonic()
        yield Parallel([waits() for _ in range(8)])
        return time.monotonic() - started_s

    assert run(plan) < 2.0  # one after the other: 2.4 s


def test_what_a_plan_raises_reaches_the_caller(run: Run, peer: ScriptedBroker) -> None:
    def plan() -> Plan[None]:
        yield Call(peer.address, beat(), 3)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        run(plan)

    def unhandled() -> Plan[None]:
        yield Call("127.0.0.1:9", beat(), 3)

    with pytest.raises(ConnectFailed):
        run(unhandled)


class Counted:
    """A plan that takes until so many have asked for it, and how often it was begun."""

    def __init__(self, error: Exception | None = None, askers: int = 1) -> None:
        self.begun = 0
        self.asked: list[None] = []
        self._askers = askers
        self._error = error

    def plan(self) -> Plan[str]:
        self.begun += 1
        while len(self.asked) < self._askers:
            yield Sleep(0.01)
        yield Sleep(0.3)  # the last one is on its way into the driver
        if self._error is not None:
            raise self._error
        return "shared"

    def outer(self) -> Plan[str]:
        self.asked.append(None)  # which is one step, whichever thread
        result: str = yield Shared("key", self.plan())
        return result


@pytest.mark.parametrize("error", [None, ConnectFailed("x:1", "no")])
def test_threads_share_one_run_and_its_outcome(error: Exception | None) -> None:
    driver = BlockingDriver()
    counted = Counted(error, askers=8)
    outcomes: list[object] = []

    def ask() -> None:
        try:
            outcomes.append(driver.run(counted.outer()))
        except ConnectFailed as failure:
            outcomes.append(failure)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert outcomes == [error or "shared"] * 8
    assert counted.begun == 1
    outcomes.clear()
    ask()
    assert counted.begun == 2, "the next one begins anew"


@pytest.mark.parametrize("error", [None, ConnectFailed("x:1", "no")])
async def test_tasks_share_one_run_and_its_outcome(error: Exception | None) -> None:
    driver = AsyncDriver(RemotingClient())
    counted = Counted(error)
    tasks = [asyncio.create_task(driver.run(counted.outer())) for _ in range(8)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1:] == [error or "shared"] * 7
    assert counted.begun == 1


def test_threads_that_call_at_the_same_time_do_not_wait_for_each_other() -> None:
    with scripted_broker({RequestCode.VIEW_MESSAGE_BY_ID: silence}) as mute:
        driver = BlockingDriver()

        def ask() -> Plan[None]:
            try:
                yield Call(mute.address, request(RequestCode.VIEW_MESSAGE_BY_ID), 60)
            except RemotingError:
                return

        threads = [threading.Thread(target=lambda: driver.run(ask())) for _ in range(6)]
        for thread in threads:
            thread.start()
        mute.wait_for(RequestCode.VIEW_MESSAGE_BY_ID, 6, timeout_s=30)  # though none of them is answered
        driver.close()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)


def test_a_closed_driver_wakes_its_threads_and_takes_no_more() -> None:
    with scripted_broker({RequestCode.VIEW_MESSAGE_BY_ID: silence}) as mute:
        driver = BlockingDriver()
        errors: list[Exception] = []

        def plan() -> Plan[None]:
            yield Call(mute.address, request(RequestCode.VIEW_MESSAGE_BY_ID), 30)

        def ask() -> None:
            try:
                driver.run(plan())
            except RemotingError as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        mute.wait_for(RequestCode.VIEW_MESSAGE_BY_ID)
        driver.close()
        thread.join(30)
        assert len(errors) == 1
        with pytest.raises(ClientClosed):
            driver.run(plan())
