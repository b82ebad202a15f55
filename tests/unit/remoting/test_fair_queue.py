"""However many peers have more to be served than fits into a turn: together they keep the loop for one turn at a time."""

import asyncio
import time

from rocketeer.remoting.fair_queue import (
    KNOWN_READS,
    MUCH_BYTES,
    READS_S,
    TURN_S,
    LoopReads,
    ReadCost,
    fair_queue,
)


class Peer:
    """Takes turns until it had `wanted` of them, each to its end."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.had = 0

    def take_turn(self, ends_s: float) -> None:
        while time.monotonic() < ends_s:
            pass
        self.had += 1
        if self.had < self.wanted:
            fair_queue().add(self)


async def test_many_peers_share_one_turn_of_the_loop_and_each_has_its_turn() -> None:
    peers = [Peer(2) for _ in range(10)]
    for peer in peers:
        fair_queue().add(peer)
        fair_queue().add(peer)  # once is enough
    loops = 0
    while any(peer.had < peer.wanted for peer in peers):
        before = sum(peer.had for peer in peers)
        await asyncio.sleep(0)
        assert sum(peer.had for peer in peers) - before <= 1
        assert max(peer.had for peer in peers) - min(peer.had for peer in peers) <= 1
        loops += 1
        assert loops < 1000, "somebody has no turn"
    assert not fair_queue()


async def test_who_is_quick_leaves_the_rest_of_the_turn_to_the_next() -> None:
    order: list[int] = []

    class Quick:
        def __init__(self, number: int) -> None:
            self.number = number

        def take_turn(self, ends_s: float) -> None:
            assert ends_s <= time.monotonic() + TURN_S
            order.append(self.number)

    for number in range(5):
        fair_queue().add(Quick(number))
    for _ in range(100):
        await asyncio.sleep(0)
    assert order == [0, 1, 2, 3, 4]


async def test_who_is_in_the_middle_of_a_request_ends_it_before_others_begin() -> None:
    order: list[int] = []

    class InTheMiddle:
        def __init__(self, number: int) -> None:
            self.number = number

        def take_turn(self, ends_s: float) -> None:
            order.append(self.number)
            while time.monotonic() < ends_s:
                pass
            if order.count(self.number) < 3:
                fair_queue().add(self, first=True)

    for number in range(3):
        fair_queue().add(InTheMiddle(number))
    while fair_queue():  # noqa: ASYNC110 its own turns are what is waited for
        await asyncio.sleep(0)
    assert order == [0, 0, 0, 1, 1, 1, 2, 2, 2]


async def test_who_needs_no_turn_any_more_gets_none_and_an_error_keeps_nobody_from_theirs() -> None:
    class Broken:
        def take_turn(self, ends_s: float) -> None:
            raise RuntimeError("a bug")

    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
    gone, stays = Peer(1), Peer(1)
    for each in (Broken(), gone, stays):
        fair_queue().add(each)
    fair_queue().remove(gone)
    for _ in range(100):
        await asyncio.sleep(0)
    assert stays.had == 1
    assert gone.had == 0
    assert [str(error) for error in told] == ["a bug"]


def test_newcomers_and_those_who_bring_much_or_took_long_may_be_expensive() -> None:
    cost = ReadCost()
    for _ in range(KNOWN_READS):
        assert cost.may_be_expensive(10), "nobody knows it yet"
        cost.note(10, 0.0001)
    assert not cost.may_be_expensive(10)
    assert cost.may_be_expensive(MUCH_BYTES)
    cost.note(MUCH_BYTES, 0.0001)
    assert cost.may_be_expensive(10), "there is more where this came from"
    cost.note(10, 1.0)
    assert not cost.may_be_expensive(10), "one that took long is no sign"
    for _ in range(20):
        cost.note(10, 1.0)
    assert cost.may_be_expensive(10)
    cost.note(10, 0.0001)
    assert not cost.may_be_expensive(10)


async def test_the_time_of_reads_begins_anew_in_every_turn_of_the_loop() -> None:
    reads = LoopReads()
    assert not reads.is_over()
    ends_s = time.monotonic() + 2 * READS_S
    while time.monotonic() < ends_s:
        pass
    assert reads.is_over()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not reads.is_over()
