"""When an offset is told, and what it waits for."""

import asyncio
from collections.abc import Mapping
from threading import Event

import pytest

from rocketeer.client.aio.commit_order import CommitOrder
from rocketeer.client.aio.drivers import AsyncDriver
from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.aio.pull_offset_commits import PULL_COMMIT_S, PullOffsetCommits
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.remoting.client import RemotingClient
from support.clock import ManualClock

BATCH = 32


def queue(number: int, topic: str = "T", broker: str = "b") -> MessageQueue:
    return MessageQueue(topic, broker, number)


def empty_cluster() -> ClusterRoutes:
    return ClusterRoutes(RouteCache(), NameServers(()), 3.0)


def test_of_a_queue_one_offset_is_under_way_at_a_time() -> None:
    order = CommitOrder()
    order.known(queue(0))
    assert order.begin(queue(0))
    assert not order.begin(queue(0))
    assert order.begin(queue(1))
    order.end(queue(0), answered=False)
    assert order.begin(queue(0))


def test_the_first_offset_of_a_topic_at_a_broker_goes_alone() -> None:
    order = CommitOrder()
    assert order.begin(queue(0))
    assert not order.begin(queue(1))
    assert order.begin(queue(1, topic="other"))
    assert order.begin(queue(1, broker="other"))
    order.end(queue(0), answered=False)
    assert order.begin(queue(1)), "the first one may not have arrived: this is a first one as well"
    assert not order.begin(queue(2))
    order.end(queue(1), answered=True)
    assert order.begin(queue(1))
    assert order.begin(queue(2))


async def test_turns_come_when_others_end() -> None:
    order = CommitOrder()
    assert order.begin(queue(0))
    turns = [asyncio.create_task(order.turn(queue(number), 30)) for number in (0, 1, 2)]
    gives_up = asyncio.create_task(order.turn(queue(0), 30))
    await asyncio.sleep(0)
    gives_up.cancel()
    assert not await order.turn(queue(3), 0.001)
    order.end(queue(0), answered=True)
    assert await asyncio.gather(*turns) == [True, True, True]
    assert not order.begin(queue(1))


async def test_whoever_waits_is_not_overtaken() -> None:
    order = CommitOrder()
    assert order.begin(queue(0))
    turn = asyncio.create_task(order.turn(queue(0), 30))
    await asyncio.sleep(0)
    order.end(queue(0), answered=True)
    assert not order.begin(queue(0)), "as pulls of a queue in which many messages wait try to at once"
    assert await turn
    order.end(queue(0), answered=True)
    assert order.begin(queue(0))


async def teller(clock: ManualClock) -> tuple[PullOffsetCommits, OffsetKeeper]:
    driver = AsyncDriver(RemotingClient())
    keeper = OffsetKeeper(driver, empty_cluster(), ConsumerConfig("G"), now_ms=0)
    return PullOffsetCommits(keeper, pull_batch=BATCH, now_s=clock.monotonic_s), keeper


async def test_while_messages_wait_every_pull_tells_what_is_new() -> None:
    tells, keeper = await teller(ManualClock())
    held = ProcessQueue(queue(0), 5)
    held.behind = 1
    keeper.table.known(queue(0), 5)
    assert tells.begin(held) is None, "the broker said so itself"
    for offset in (6, 7, 8):
        keeper.table.update(queue(0), offset)
        assert tells.begin(held) == offset
        assert tells.begin(held) is None, "one at a time"
        tells.end(held, offset, told=True)
        assert tells.begin(held) is None
        assert keeper.table.unsaved() == {queue(0): offset}, "a commit makes sure of it"
    keeper.table.update(queue(0), 5, only_forward=False)
    assert keeper.table.unsaved() == {queue(0): 5}, "stored before, but something else was told since"
    keeper.table.update(queue(0), 9)
    keeper.table.saved(queue(0), 9)
    assert tells.begin(held) is None, "a commit has told it"


async def test_at_the_end_of_a_queue_only_some_pulls_tell() -> None:
    clock = ManualClock()
    tells, keeper = await teller(clock)
    held = ProcessQueue(queue(0), 0)
    told = []
    for offset in range(1, 2 * BATCH + 2):
        keeper.table.update(queue(0), offset)
        if tells.begin(held) is not None:
            told.append(offset)
            tells.end(held, offset, told=True)
    assert told == [1, 1 + BATCH, 1 + 2 * BATCH], "for every pull's worth"
    keeper.table.update(queue(0), 2 * BATCH + 2)
    assert tells.begin(held) is None
    clock.advance(ms=int(PULL_COMMIT_S * 1000))
    assert tells.begin(held) == 2 * BATCH + 2, "or after a while"


async def test_a_pull_that_was_not_answered_has_told_nothing() -> None:
    clock = ManualClock()
    tells, keeper = await teller(clock)
    held = ProcessQueue(queue(0), 5)
    keeper.table.known(queue(0), 5)
    keeper.table.update(queue(0), 6)
    assert tells.begin(held) == 6
    tells.end(held, 6, told=False)
    assert keeper.table.unsaved() == {queue(0): 6}
    assert tells.begin(held) is None, "a broker that does not answer is not asked without pause"
    clock.advance(ms=int(PULL_COMMIT_S * 1000))
    assert tells.begin(held) == 6


@pytest.mark.parametrize(("broker_id", "offset"), [(1, 9), (0, 0)], ids=["a slave", "offset 0"])
async def test_what_is_never_told(broker_id: int, offset: int) -> None:
    tells, keeper = await teller(ManualClock())
    held = ProcessQueue(queue(0), 5)
    held.behind, held.broker_id = 1, broker_id
    keeper.table.update(queue(0), offset)
    assert tells.begin(held) is None


class SlowStore:
    """Keeps offsets, the first of them slowly."""

    def __init__(self) -> None:
        self.begun, self.may_end = Event(), Event()
        self.stored: list[int] = []

    def load(self, queue: MessageQueue) -> int | None:
        return None

    def store(self, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.may_end.wait(60)
        self.stored += offsets.values()


async def test_offsets_of_a_store_that_was_cancelled_do_not_land_behind_newer_ones() -> None:
    """The periodic one is cancelled when a consumer closes, which then stores the last ones."""
    own = SlowStore()
    driver = AsyncDriver(RemotingClient())
    config = ConsumerConfig("G", offset_store=own)
    keeper = OffsetKeeper(driver, empty_cluster(), config, now_ms=0)
    keeper.table.update(queue(0), 100)
    periodic = asyncio.create_task(keeper.store())
    await asyncio.to_thread(own.begun.wait, 60)
    periodic.cancel()
    with pytest.raises(asyncio.CancelledError):
        await periodic
    keeper.table.update(queue(0), 150)
    last = asyncio.create_task(keeper.store())
    await asyncio.wait((last,), timeout=0.1)
    own.may_end.set()
    await last
    assert own.stored == [100, 150]
