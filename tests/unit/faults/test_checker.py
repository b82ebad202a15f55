"""The checker of `make faults` finds what is wrong: each law broken once, by hand."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from faults.check import _topic_problems, _waiting_for_long
from faults.history import broken_steps
from faults.ledger import DELAYED, ONCE, ORDERED, RECALLED, SINGLE, TRANSACTIONS, Handled, Ledger
from faults.orderly import orderly_problems, unhandled
from rocketeer.bench.groups import MemberProcess
from rocketeer.group.state import (
    GroupState,
    Leader,
    LiveMember,
    MemberIdentity,
    created,
    elected,
    grown,
    shrunk,
)
from rocketeer.record.layout import StoredMessage
from support.broker import broker_at
from support.clock import ManualClock
from support.senders import Acked
from support.stores import message, open_store, read_queue


def queues_of(folder: Path, *bodies: bytes) -> list[list[StoredMessage]]:
    """A queue with these, as a broker would give it, and an empty one."""
    store, _ = open_store(folder)
    for body in bodies:
        store.append(message(body))
    found = read_queue(store)
    store.close()
    return [found, []]


def told(topic: str, queues: list[list[StoredMessage]], ledger: Ledger) -> str:
    return "; ".join(_topic_problems(topic, queues, ledger))


def acked(ledger: Ledger, topic: str, *bodies: bytes) -> None:
    ledger.sent[topic].update(bodies)
    ledger.acked[topic] += [Acked(body, 0, place, "") for place, body in enumerate(bodies)]


def test_what_is_as_it_was_acknowledged_is_no_problem(tmp_path: Path) -> None:
    ledger = Ledger()
    acked(ledger, SINGLE, b"1", b"2")
    assert told(SINGLE, queues_of(tmp_path, b"1", b"2"), ledger) == ""


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        ((b"1",), "1 acknowledged messages are not where they were"),
        ((b"2", b"1"), "2 acknowledged messages are not where they were"),
        ((b"1", b"2", b"2"), "1 messages are there twice"),
        ((b"1", b"2", b"refused"), "1 refused messages are there"),
        ((b"1", b"2", b"?"), "1 messages nobody sent"),
    ],
)
def test_what_is_lost_moved_doubled_refused_or_invented_is_found(
    tmp_path: Path, stored: tuple[bytes, ...], problem: str
) -> None:
    ledger = Ledger()
    acked(ledger, SINGLE, b"1", b"2")
    ledger.sent[SINGLE].add(b"refused")
    ledger.refused[SINGLE].add(b"refused")
    assert problem in told(SINGLE, queues_of(tmp_path, *stored), ledger)


def test_delayed_transactional_ordered_and_idempotent_messages_have_laws_of_their_own(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.sent[DELAYED] = ledger.later[DELAYED] = {b"1", b"2"}
    ledger.sent[TRANSACTIONS] = {b"1", b"2"}
    ledger.committed_transactions, ledger.rolled_back = {b"2"}, {b"1"}
    ledger.sent[ORDERED] = {b"key 0 0", b"key 1 0"}
    ledger.sent[ONCE] = {b"1"}
    assert "never delivered" in told(DELAYED, queues_of(tmp_path / "d", b"1"), ledger)
    transactions = told(TRANSACTIONS, queues_of(tmp_path / "t", b"1"), ledger)
    assert "committed messages are not there" in transactions
    assert "rolled back and are there" in transactions
    assert "0 stands behind 1" in told(ORDERED, queues_of(tmp_path / "o", b"key 1 0", b"key 0 0"), ledger)
    assert "there twice" in told(ONCE, queues_of(tmp_path / "i", b"1", b"1"), ledger)


def test_what_was_taken_back_is_nowhere_and_what_was_not_is_there(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.sent[RECALLED] = {b"back", b"kept", b"nobody knows"}
    ledger.recalled, ledger.later[RECALLED] = {b"back"}, {b"kept"}
    assert told(RECALLED, queues_of(tmp_path / "a", b"kept", b"nobody knows"), ledger) == ""
    assert "taken back and are there" in told(RECALLED, queues_of(tmp_path / "b", b"kept", b"back"), ledger)
    assert "never delivered" in told(RECALLED, queues_of(tmp_path / "c"), ledger)


BODIES = (b"key 0 0", b"key 1 0", b"key 2 0")


def handled(
    offset: int, member: str, began_s: float, ended_s: float, *, succeeded: bool = True, body: bytes = b""
) -> Handled:
    return Handled(0, offset, body or BODIES[offset], member, began_s, ended_s, succeeded)


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        ([handled(0, "a", 0, 1), handled(1, "a", 1, 2), handled(2, "b", 3, 4)], ""),
        # Its offset was not stored when it went: the next one begins where it was stored last.
        ([handled(0, "a", 0, 1), handled(1, "a", 1, 2), handled(0, "b", 3, 4), handled(1, "b", 4, 5)], ""),
        ([handled(0, "a", 0, 1, succeeded=False), handled(0, "a", 1, 2), handled(1, "a", 2, 3)], ""),
        # A listener that was at it for longer than its lock lived.
        ([handled(0, "a", 0, 70), handled(0, "b", 61, 62)], ""),
        ([handled(0, "a", 0, 2), handled(0, "b", 1, 3)], "b began 0 1.000 s before a was through with 0"),
        (
            [handled(0, "a", 0, 9), handled(1, "a", 1, 2), handled(2, "b", 8, 10)],
            "b began 2 1.000 s before a",
        ),
        ([handled(0, "a", 0, 1), handled(2, "a", 1, 2)], "a handled 2 before 1 was done"),
        ([handled(0, "a", 0, 1, succeeded=False), handled(1, "a", 1, 2)], "a handled 1 before 0 was done"),
        ([handled(0, "a", 0, 1, body=b"cut since")], "which is not there"),
    ],
    ids=["order", "again", "failed", "outlived", "two at once", "long", "skipped", "not done", "unconfirmed"],
)
def test_consumers_in_order_are_one_at_a_time_and_one_after_the_other(
    tmp_path: Path, calls: list[Handled], problem: str
) -> None:
    found = "; ".join(orderly_problems(calls, queues_of(tmp_path, *BODIES)))
    assert problem in found
    assert bool(problem) == bool(found)


def test_an_ordered_message_that_no_member_is_through_with_is_missed() -> None:
    ledger = Ledger()
    acked(ledger, ORDERED, *BODIES)
    ledger.handled = [handled(0, "a", 0, 1), handled(1, "a", 1, 2, succeeded=False)]
    assert unhandled(ledger) == {BODIES[1], BODIES[2]}


async def test_a_try_that_a_clock_far_ahead_has_timed_is_found_waiting(tmp_path: Path) -> None:
    """As docs/reliability.md says of what is timed by how long it shall wait; what is due soon is none of it."""
    now_ms = int(time.time() * 1000)
    clock = ManualClock(start_ms=now_ms)
    async with broker_at(tmp_path, clock=clock) as broker:
        assert (await broker.send("T", b"soon", properties="TIMER_DELAY_MS\x013000\x02")).code == 0
        clock.advance(ms=3_600_000)
        assert (await broker.send("T", b"then", properties="TIMER_DELAY_MS\x013000\x02")).code == 0
        member = cast(MemberProcess, SimpleNamespace(address=broker.address))
        assert await asyncio.to_thread(_waiting_for_long, member) == {b"then"}


def test_a_history_that_the_rules_do_not_allow_is_found() -> None:
    me = {number: MemberIdentity(number, f"store{number}", f"session{number}") for number in (1, 2, 3)}
    first = created("g", me[1])
    second = grown(first, 2, me[2].incarnation)
    live = {2: LiveMember(me[2].session, me[2].incarnation, "", "")}
    third = elected(second, live, me[2])
    assert list(broken_steps([first, second, third, grown(third, 3, me[3].incarnation)])) == []
    assert list(broken_steps([first, second, shrunk(second, 2)])) == []

    def broken(**changes: object) -> str:
        fields = {
            "group": "g", "epoch": 2, "version": 3, "leader": Leader(2, "session2"), "in_sync": {2: "store2"},
        } | changes  # fmt: skip
        return next(broken_steps([second, GroupState(**fields)]), "")  # type: ignore[arg-type]

    assert broken() == ""
    assert "another group" in broken(group="other")
    assert "versions" in broken(version=4)
    assert "two leaders of one epoch" in broken(epoch=1)
    assert "epochs do not follow" in broken(epoch=3)
    assert "who was not in sync" in broken(leader=Leader(3, "session3"), in_sync={3: "store3"})
    assert "a leader that is not in sync" in broken(leader=Leader(3, "session3"))
    assert "more than one" in broken(
        epoch=1, leader=Leader(1, "session1"), in_sync={1: "store1", 3: "store3", 2: "x"}
    )
