"""The checker of `make faults` finds what is wrong: each law broken once, by hand."""

from pathlib import Path

import pytest

from faults.check import _topic_problems
from faults.history import broken_steps
from faults.ledger import DELAYED, ONCE, ORDERED, SINGLE, TRANSACTIONS, Ledger
from rocketeer.group.state import GroupState, Leader, Me, Seat, created, elected, grown, shrunk
from rocketeer.record.layout import StoredMessage
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


def test_a_history_that_the_rules_do_not_allow_is_found() -> None:
    me = {number: Me(number, f"store{number}", f"session{number}") for number in (1, 2, 3)}
    first = created("g", me[1])
    second = grown(first, 2, me[2].incarnation)
    seats = {2: Seat(me[2].session, me[2].incarnation, "", "")}
    third = elected(second, seats, me[2])
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
