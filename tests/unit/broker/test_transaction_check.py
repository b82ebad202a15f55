"""Asking producers after half messages: whom, when, how often, and what becomes of one nobody answers for."""

from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.features.transaction import check_back
from rocketeer.broker.features.transaction.check_back import TOLD_GROUPS_MAX, Checks
from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import QueueOffset
from rocketeer.record.layout import decode_record
from support.stores import message
from support.transactions import COMMIT, ENDED, ROLLBACK, TOPIC, Rig, ok, times_asked


def test_nobody_is_asked_before_the_time_is_over(rig: Rig) -> None:
    peer = rig.join()
    rig.prepare()
    rig.round(after_ms=5_999)
    assert peer.questions() == []
    rig.round(after_ms=1)
    (question,) = peer.questions()
    asked = decode_record(question.body)
    assert (asked.topic, asked.queue_id, asked.body) == (TOPIC, 1, b"half")
    assert question.ext["transactionId"] == "K"
    assert [times_asked(half) for half in rig.halves()] == [None, "1"]


def test_it_is_set_aside_after_the_last_time_and_may_be_resumed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, times_max=2)
    peer = rig.join()
    half = rig.prepare()
    for _ in range(5):
        rig.round()
    assert len(peer.questions()) == 2
    (given_up,) = rig.given_up()
    assert given_up.properties_dict()["REAL_TOPIC"] == TOPIC
    assert rig.end(half) == ENDED
    assert rig.progress() == (3, 0)
    assert ok(rig.resume(given_up.log_offset))
    rig.round()
    (question,) = peer.questions()
    assert ok(rig.answer(question, COMMIT))
    assert rig.delivered() == [b"half"]
    assert len(rig.given_up()) == 1


@pytest.mark.parametrize("limit", ["_entries_max", "_pairs_max", "_chars_max"])
def test_progress_finds_room_however_many_offsets_strangers_have_committed(rig: Rig, limit: str) -> None:
    rig.offsets.commit("G", "T", 0, QueueOffset(1))
    setattr(rig.offsets, limit, 1)
    half = rig.prepare()
    assert ok(rig.end(half))
    rig.round()
    assert rig.progress() == (1, 1)
    with pytest.raises(RequestRefused):
        rig.offsets.commit("CID_RMQ_SYS_TRANS", "T", 0, QueueOffset(1))


def test_resuming_a_pending_one_does_not_make_two_of_it(rig: Rig) -> None:
    peer = rig.join()
    half = rig.prepare()
    rig.round()
    peer.questions()
    assert ok(rig.resume(half.log_offset))
    rig.round()
    (question,) = peer.questions()
    assert ok(rig.answer(question, COMMIT))
    rig.round()
    assert peer.questions() == []
    assert rig.delivered() == [b"half"]


def test_only_a_half_message_can_be_resumed(rig: Rig) -> None:
    plain = rig.put(message()).appended[0]
    assert "is no half message of this broker" in str(rig.resume(plain.log_offset))
    assert "is no half message of this broker" in str(rig.resume(1 << 50))
    assert "not 32 (IPv4) or 56" in str(rig.ask(323, {"msgId": "nonsense"}))


def test_with_nobody_to_ask_it_waits_and_is_not_counted(rig: Rig) -> None:
    rig.prepare()
    for _ in range(40):
        rig.round()
    assert len(rig.halves()) == 1
    assert rig.given_up() == []
    deaf = rig.join()
    deaf.unread_bytes = 1 << 30
    gone = rig.join()
    gone.closed = True
    rig.round()
    assert len(rig.halves()) == 1, "neither can be asked now"
    peer = rig.join()
    rig.round()
    (question,) = peer.questions()
    assert deaf.questions() == gone.questions() == []
    assert ok(rig.answer(question, COMMIT))
    assert times_asked(rig.halves()[-1]) == "1"


def test_members_of_the_group_are_asked_in_turn(rig: Rig) -> None:
    peers = [rig.join() for _ in range(3)]
    stranger = rig.join("another group")
    for n in range(9):
        rig.prepare(key=f"K{n}")
    rig.round()
    assert [len(peer.questions()) for peer in peers] == [3, 3, 3]
    assert stranger.questions() == []


def test_one_that_waits_does_not_hold_up_the_others(rig: Rig, tmp_path: Path) -> None:
    """Progress stops at it, so that nothing is forgotten; op messages say what is settled behind it."""
    peer = rig.join()
    waits = rig.prepare(b"waits", "K0", PGROUP="nobody is here")
    others = [rig.prepare(b"%d" % n, f"K{n}") for n in range(1, 5)]
    rig.round()
    questions = peer.questions()
    assert [question.ext["msgId"] for question in questions] == ["K1", "K2", "K3", "K4"]
    assert rig.ops() == [b"1", b"2", b"3", b"4"], "the first copies, which progress cannot pass"
    assert rig.progress() == (0, 0)
    assert ok(rig.answer(questions[0], COMMIT))
    assert ok(rig.end(others[1], ROLLBACK))
    rig.save()
    again = rig.reopened(tmp_path / "copy")
    peer = again.join()
    again.round()
    assert [question.ext["msgId"] for question in peer.questions()] == ["K3", "K4"]
    assert ok(again.end(waits, producerGroup="nobody is here"))
    assert again.delivered() == [b"1", b"waits"]
    again.round()
    assert again.progress()[0] == again.table.half_offset > 4


def test_one_that_waits_too_far_behind_is_appended_anew(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_back, "BEHIND_MAX", 10)
    waits = rig.prepare(b"waits", "K")
    for n in range(10):
        assert ok(rig.end(rig.prepare(b"", f"K{n}"), ROLLBACK))
    rig.round()
    assert rig.progress() == (11, 10)
    assert [times_asked(half) for half in rig.halves()][-1] == "0"
    assert ok(rig.end(waits)), "its producer knows the old place only"
    assert rig.delivered() == [b"waits"]


@pytest.mark.parametrize(
    ("text", "asked_after_ms"), [("120", 120_000), ("0", 1), ("-1", 6_000), ("x", 6_000)]
)
def test_the_sender_may_choose_how_long_nobody_is_asked(rig: Rig, text: str, asked_after_ms: int) -> None:
    peer = rig.join()
    rig.prepare(CHECK_IMMUNITY_TIME_IN_SECONDS=text)
    for _ in range(20):
        rig.round(after_ms=asked_after_ms // 20 - (asked_after_ms > 1))
    assert peer.questions() == []
    rig.round(after_ms=asked_after_ms)
    (question,) = peer.questions()
    assert ok(rig.answer(question, COMMIT))
    assert int(times_asked(rig.halves()[-1]) or 0) <= 2, "immune rounds do not count as asked"


def test_a_verdict_while_it_is_immune_ends_it(rig: Rig) -> None:
    peer = rig.join()
    half = rig.prepare(CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    rig.round()
    assert rig.halves()[-1].properties_dict()["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert ok(rig.end(half))
    rig.round(after_ms=1_000_000)
    assert peer.questions() == []
    assert rig.delivered() == [b"half"]


def test_a_birth_in_the_future_does_not_protect(rig: Rig) -> None:
    peer = rig.join()
    half = rig.half()
    half.born_ms += 1 << 40
    rig.put(half)
    rig.round()
    assert len(peer.questions()) == 1


def test_the_log_may_have_lost_a_half_message(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    half = rig.prepare()
    rig.table.catch_up()
    found = rig.store.message_at
    hidden: dict[int, Any] = {half.log_offset: None}
    monkeypatch.setattr(
        rig.store, "message_at", lambda at: hidden.get(at, found(at)) if at not in hidden else None
    )
    rig.round()
    assert not rig.table.pending
    assert rig.progress()[0] == 1


def test_halves_stored_while_the_clock_was_far_ahead_are_asked_after_and_hold_up_nobody(rig: Rig) -> None:
    """For a hundred days nobody was asked any more: each round ended at the first of them."""
    peer = rig.join()
    born_ms = rig.clock.now_ms()
    ahead = rig.half(b"ahead", "K1")
    rig.clock.advance(ms=100 * 86_400_000)
    assert rig.put(ahead).stored
    rig.clock._ms = born_ms  # somebody sets it right
    rig.prepare(b"now", "K2")
    rig.round()
    assert [question.ext["msgId"] for question in peer.questions()] == ["K1", "K2"]


def test_of_very_many_groups_that_are_not_here_some_are_told_and_each_is_a_step(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(300):
        rig.prepare(key=f"K{number}", PGROUP=f"{number:04}" + "g" * 5_000)
    rig.clock.advance(ms=6_001)
    caplog.set_level("WARNING")
    checks: Checks = rig.feature.services[0].run.__self__  # type: ignore[attr-defined]
    told = 0
    for _ in checks.round():
        assert len(caplog.records) <= told + 1
        told = len(caplog.records)
    assert len(caplog.records) == TOLD_GROUPS_MAX + 1
    assert "count=300" in caplog.records[-1].getMessage()
    assert max(len(record.getMessage()) for record in caplog.records) < 500
