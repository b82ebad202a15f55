"""How many transactions may be open, and what those cost that nobody ends."""

from pathlib import Path

import pytest

from rocketeer.broker.features.transaction import check_back, ledger
from rocketeer.model.topic import TRANS_HALF_TOPIC
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.layout import PROPERTIES_BYTES_MAX
from support.transactions import COMMIT, ROLLBACK, Rig, ok, times_asked

NOBODY = "nobody is here"
HOURS_MS = 3_600_000


def test_those_that_wait_are_not_appended_again_however_many_they_are(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the last 10,000 were, each minute: 20,000 of 100 KB took 1 GB a minute, and honest messages went."""
    monkeypatch.setattr(check_back, "BEHIND_MAX", 10)
    for n in range(100):
        rig.prepare(key=f"K{n}", PGROUP=NOBODY)
    end = rig.store.max_log_offset
    for _ in range(5):
        rig.round()
    assert len(rig.halves()) == 100
    assert rig.store.max_log_offset == end
    assert len(rig.table.pending) == 100


def test_one_that_holds_up_progress_is_appended_anew_for_no_more_than_a_share_of_what_others_store(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_back, "BEHIND_MAX", 10)
    rig.prepare(bytes(10_000), "large", PGROUP=NOBODY)
    rig.round()
    rig.round()
    for n in range(20):
        assert ok(rig.end(rig.prepare(b"", f"K{n}"), ROLLBACK))
    rig.round()
    assert rig.progress()[0] == 0, "a few small ones do not pay for it"
    for n in range(100):
        assert ok(rig.end(rig.prepare(b"", f"L{n}"), ROLLBACK))
    rig.round()
    assert rig.progress()[0] == 121
    assert sum(len(half.body) == 10_000 for half in rig.halves()) == 2


@pytest.mark.parametrize(
    ("rules", "key"),
    [({"half_messages_max": 10}, "limitHalfMessages"), ({"half_bytes_max": 4_000}, "limitHalfBytes")],
)
def test_beyond_the_limits_no_transaction_begins_until_one_ends(
    tmp_path: Path, rules: dict[str, int], key: str
) -> None:
    rig = Rig(tmp_path / "store", rules=rules)
    halves = []
    while True:
        put = rig.put(rig.half(bytes(200), f"K{len(halves)}"))
        if not put.stored:
            break
        halves.append(put.appended[0])
    assert put.code == ResponseCode.SYSTEM_BUSY
    assert key in (put.remark or "")
    assert 5 <= len(halves) <= 10
    assert rig.table.pending_bytes == sum(half.size for half in halves)
    for verdict, half in zip((COMMIT, ROLLBACK), halves, strict=False):
        assert ok(rig.end(half, verdict))
    assert rig.table.pending_bytes == sum(half.size for half in halves[2:])
    for key in ("one", "two"):
        rig.prepare(bytes(200), key)
    for half in halves[2:]:
        assert ok(rig.end(half))
    reopened = Rig(rig.kill(tmp_path / "copy"), rig.clock, rules=rules)
    assert reopened.table.pending_bytes == rig.table.pending_bytes > 0
    assert len(reopened.table.pending) == 2


def test_when_too_many_wait_the_oldest_that_nobody_can_be_asked_after_are_set_aside(tmp_path: Path) -> None:
    """Strangers' halves must not keep everybody else's out."""
    rig = Rig(tmp_path, rules={"half_messages_max": 100})
    peer = rig.join()
    mine = rig.prepare(b"mine", "mine", CHECK_IMMUNITY_TIME_IN_SECONDS="999999")
    for n in range(70):
        rig.prepare(key=f"K{n}", PGROUP=NOBODY, CHECK_IMMUNITY_TIME_IN_SECONDS="9" * 18)
    rig.round()
    rig.round()
    assert [half.uniq_key for half in rig.given_up()] == [f"K{n}" for n in range(21)]
    assert len(rig.table.pending) == 50
    assert peer.questions()[0].ext["msgId"] == "mine", "nobody is immune meanwhile"
    assert ok(rig.end(mine))
    assert rig.delivered() == [b"mine"]


def test_one_that_nobody_can_be_asked_after_waits_as_long_as_the_log_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_back, "BEHIND_MAX", 10)
    rig = Rig(tmp_path, rules={"reserved_ms": 72 * HOURS_MS})
    rig.join()
    for number, born_ms in enumerate((0, 1 << 42)):
        half = rig.half(b"half", f"K{number}", PGROUP=NOBODY)
        half.born_ms = born_ms
        rig.put(half)
    for _ in range(72 * 6 - 1):
        rig.round(after_ms=HOURS_MS // 6)
        rig.end(rig.prepare(b"", "other"), ROLLBACK)
    assert 2 < sum(half.body == b"half" for half in rig.halves()) < 100, "moved on sometimes"
    assert rig.given_up() == []
    rig.round(after_ms=HOURS_MS // 3)
    given_up = rig.given_up()
    assert sorted(half.uniq_key or "" for half in given_up) == ["K0", "K1"], (
        "whatever its producer's clock said"
    )
    assert ok(rig.resume(given_up[0].log_offset))
    rig.round()
    assert len(rig.given_up()) == 2, "an operator has it wait anew"
    rig.join(NOBODY)
    rig.round()
    assert times_asked(rig.halves()[-1]) == "1"


def test_one_without_room_for_our_notes_holds_up_nobody(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Rounds ended at it: nobody was asked any more, and the log's files were kept for ever."""
    peer = rig.join()
    full = rig.half(b"full", "K1")
    full.properties += b"\x02x\x01" + b"y" * (PROPERTIES_BYTES_MAX - 60 - len(full.properties))
    refused = rig.put(full)
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert "for notes of the broker" in (refused.remark or "")
    # Stored by a broker that took it.
    full.properties += b"\x02REAL_TOPIC\x01T\x02REAL_QID\x010"
    full.topic, full.queue_id = TRANS_HALF_TOPIC, 0
    for _ in range(2):
        assert rig.put(full, internal=True).stored
    rig.prepare(b"after", "K2")
    rig.table.catch_up()
    (roll,) = rig.feature.rolls
    assert roll(list(rig.table.pending)[1]), "its file may go"
    rig.round()
    assert [half.body for half in rig.given_up()] == [b"full", b"full"]
    assert [question.ext["msgId"] for question in peer.questions()] == ["K2"]
    assert caplog.text.count("half message given up") == 2


def test_one_that_retention_moves_on_is_counted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, times_max=3)
    rig.prepare(PGROUP=NOBODY)
    (roll,) = rig.feature.rolls
    rig.table.catch_up()
    for _ in range(3):
        while not roll(rig.store.max_log_offset):
            pass
    assert [times_asked(half) for half in rig.halves()] == [None, "1", "2", "3"]
    rig.round()
    assert len(rig.given_up()) == 1


def test_of_very_many_that_are_set_aside_some_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ledger, "LOGGED_MOVES_MAX", 10)
    rig = Rig(tmp_path, times_max=0)
    for n in range(30):
        rig.prepare(key=f"K{n}", TRANSACTION_CHECK_TIMES="1")
    rig.round()
    assert len(rig.given_up()) == 30
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 11
    assert caplog.records[-1].getMessage().startswith("half messages given up, not all told count=30")
