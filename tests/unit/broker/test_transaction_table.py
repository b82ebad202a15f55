"""What is kept of pending half messages: the table on disk, and the log they are rolled forward in."""

import json
from collections import Counter
from pathlib import Path

import pytest

from rocketeer.broker.features.transaction.admission import CATCH_UP_HALVES
from rocketeer.broker.features.transaction.half_table import HalfTable
from rocketeer.errors import BadBody
from support.transactions import COMMIT, ENDED, ROLLBACK, Rig, ok

# --- retention ----------------------------------------------------------------------------------


def test_a_half_message_is_rolled_forward_before_its_log_file_goes(rig: Rig) -> None:
    """It may wait for its producers longer than the log is kept."""
    (needs,), (roll,) = rig.feature.needs, rig.feature.rolls
    halves = [rig.prepare(b"%d" % n, f"K{n}") for n in range(150)]
    assert ok(rig.end(halves[7]))
    assert needs() == halves[0].log_offset
    below = halves[120].log_offset
    rounds = 0
    while not roll(below):
        rounds += 1
        assert rounds < 10
    assert rounds >= 1, "in slices"
    assert needs() == halves[120].log_offset
    for half in (halves[7], halves[7]):
        assert rig.end(half) == ENDED
    for n in (0, 119, 149):
        assert ok(rig.end(halves[n]))
    assert rig.delivered() == [b"7", b"0", b"119", b"149"]
    peer = rig.join()
    for _ in range(2):
        rig.round()
    ids = [question.ext["msgId"] for question in peer.questions()]
    assert Counter(ids) == Counter([f"K{n}" for n in range(150) if n not in (7, 0, 119, 149)] * 2)


def test_nothing_pending_needs_nothing(rig: Rig) -> None:
    (needs,), (roll,) = rig.feature.needs, rig.feature.rolls
    assert ok(rig.end(rig.prepare()))
    assert needs() is None
    assert roll(1 << 40)


# --- in a group ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [COMMIT, ROLLBACK])
def test_a_half_that_was_asked_after_ends_once_also_before_the_question_is_confirmed(
    tmp_path: Path, verdict: int
) -> None:
    """The copy that a question is about is not in the half queue yet for those who read no further than confirmed."""
    rig = Rig(tmp_path / "s", bounded=True)
    peer = rig.join()
    first, second = rig.prepare(b"1", "K1"), rig.prepare(b"2", "K2")
    rig.bound.advance(rig.store.max_log_offset)
    rig.round()
    questions = peer.questions()
    rig.prepare(b"3", "K3")
    assert len(rig.halves()) == 2, "the copies are not confirmed"
    assert ok(rig.answer(questions[1], verdict))
    assert rig.answer(questions[1], verdict) == ENDED
    rig.bound.advance(rig.store.max_log_offset)
    assert rig.answer(questions[1], verdict) == ENDED
    assert rig.end(second) == ENDED
    assert ok(rig.end(first))
    rig.bound.advance(rig.store.max_log_offset)
    assert rig.end(first) == ENDED
    rig.round()
    assert [question.ext["msgId"] for question in peer.questions()] == ["K3"]
    assert rig.delivered() == ([b"2", b"1"] if verdict == COMMIT else [b"1"])
    delivered = rig.delivered()
    again = rig.reopened(tmp_path / "again")
    assert again.delivered() == delivered
    assert [again.store.message_at(place).body for place in again.table.pending] == [b"3"]  # type: ignore[union-attr]


# --- the file -----------------------------------------------------------------------------------


def test_the_table_is_saved_when_it_changed_and_not_otherwise(rig: Rig) -> None:
    assert not rig.table.take_dirty()
    half = rig.prepare()
    assert ok(rig.end(half))
    rig.round()
    assert rig.table.take_dirty()
    text = json.loads(rig.table.encode())
    assert text == {"logOffset": rig.store.max_log_offset, "halfOffset": 1, "opOffset": 1}
    assert not rig.table.take_dirty()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"logOffset":-1,"halfOffset":0,"opOffset":0}',
                                  '{"logOffset":"1","halfOffset":0,"opOffset":0}'])  # fmt: skip
def test_a_table_that_makes_no_sense_is_said_so(rig: Rig, text: str) -> None:
    with pytest.raises(BadBody):
        HalfTable(rig.store, rig.offsets).decode(text)


def test_whoever_sends_very_many_halves_has_them_noted(rig: Rig) -> None:
    """40,000 within a second were looked at in one go, by the one who came next: 14 ms."""
    for number in range(700):
        rig.prepare(key=f"K{number}")
        assert number - len(rig.table.pending) <= CATCH_UP_HALVES
