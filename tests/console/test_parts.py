"""What pages are made of, without a cluster: answers that are kept, replicas, members that disagree, times."""

import asyncio

from rocketeer.admin.results import BrokerRuntime, ClusterBroker, GroupMembers
from rocketeer.console.cluster_view import CachedAnswer, PageCache
from rocketeer.console.pages.cluster import bytes_behind
from rocketeer.console.pages.groups import disagreements
from rocketeer.console.pages.message_display import body_forms
from rocketeer.console.pages.trace import began_ms
from rocketeer.console.pages.waiting import delays_s
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.connections import ClientConnection, GroupConnections
from rocketeer.protocol.bodies.running_info import RunningInfo
from rocketeer.record.trace import TraceEvent, TraceKind


def test_an_answer_that_was_asked_before_a_change_is_not_shown_after_it() -> None:
    async def law() -> None:
        answers = ["before", "after"]
        gate = asyncio.Event()

        async def ask() -> str:
            mine = answers.pop(0)
            if mine == "before":
                await gate.wait()
            return mine

        kept = CachedAnswer(ask)
        early = asyncio.create_task(kept.get())
        await asyncio.sleep(0)
        kept.forget()
        assert await kept.get() == "after"
        gate.set()
        assert await early == "before"
        assert await kept.get() == "after", "the late answer did not take its place"

    asyncio.run(law())


def test_fifty_looks_at_one_page_are_one_and_a_failure_is_not_kept() -> None:
    async def law() -> None:
        loads = 0

        async def load() -> int:
            nonlocal loads
            loads += 1
            await asyncio.sleep(0)
            if loads == 1:
                raise ValueError("the first fails")
            return loads

        looks = PageCache()
        failed = await asyncio.gather(*(looks.get("page", load) for _ in range(50)), return_exceptions=True)
        assert {type(each) for each in failed} == {ValueError}
        assert set(await asyncio.gather(*(looks.get("page", load) for _ in range(50)))) == {2}
        assert await looks.get("other", load) == 3
        looks.forget()
        assert await looks.get("page", load) == 4

    asyncio.run(law())


def test_a_replica_is_behind_by_what_its_master_has_more() -> None:
    master, replica = ClusterBroker("c", "a", 0, "h:1"), ClusterBroker("c", "a", 1, "h:2")
    ends = {
        master: BrokerRuntime({"commitLogMaxOffset": "500"}),
        replica: BrokerRuntime({"commitLogMaxOffset": "480"}),
    }
    assert bytes_behind(replica, ends[replica], ends[master]) == 20
    assert bytes_behind(master, ends[master], ends[master]) is None
    assert bytes_behind(replica, ends[replica], None) is None, "unknown is not zero"
    assert bytes_behind(replica, ends[replica], BrokerRuntime({})) is None


def _member(name: str, *subscriptions: Subscription) -> tuple[ClientConnection, RunningInfo]:
    return ClientConnection("h:1", name, "JAVA", 409), RunningInfo({}, subscriptions, {})


def test_members_that_agree_are_not_mentioned_and_those_that_do_not_are_named() -> None:
    orders, paid = Subscription("orders"), Subscription("orders", "paid")
    retry = Subscription("%RETRY%g")

    def said(*members: tuple[ClientConnection, RunningInfo]) -> list[str]:
        connections = GroupConnections(tuple(each for each, _ in members), None, None, None)
        return [str(each) for each in disagreements(GroupMembers("g", connections, dict(members)))]

    assert said(_member("one", orders, retry), _member("two", orders)) == []
    assert said(_member("one", orders), _member("two", paid)) == [
        "members filter orders differently: '*': one; 'paid': two"
    ]
    assert said(_member("one", orders), _member("two")) == ["two does not subscribe to orders"]


def test_what_was_consumed_is_drawn_from_where_it_began() -> None:
    assert began_ms(TraceEvent(TraceKind.SUB_AFTER, "id", time_ms=1000, cost_ms=300)) == 700
    assert began_ms(TraceEvent(TraceKind.PUB, "id", time_ms=1000, cost_ms=300)) == 1000


def test_levels_are_read_as_the_broker_writes_them() -> None:
    assert delays_s("1s 5m 2h 1d") == {1: 1, 2: 300, 3: 7200, 4: 86400}
    assert delays_s("1s nonsense 3s") == {1: 1, 3: 3}
    assert delays_s("") == {}


def test_a_body_has_only_the_forms_it_has() -> None:
    assert list(body_forms(b'{"a": 1}')) == ["text", "json", "hex"]
    assert list(body_forms(b"plain")) == ["text", "hex"]
    assert list(body_forms(b"\xff\x00")) == ["hex"]
    assert list(body_forms(b"[" * 50_000)) == ["text", "hex"], "nested without end is no JSON to us"
    cut = body_forms("\u4e2d".encode() * 400_000)
    assert set(cut["text"]) == {"\u4e2d"}
    assert len(cut["text"]) == 100_000
