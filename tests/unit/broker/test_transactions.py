"""The laws of transactions at the broker: delivered once, or never; nothing forgotten, whatever dies when."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.features import transaction_check, transaction_forms
from rocketeer.broker.features.transaction_table import HalfTable
from rocketeer.clock import ManualClock
from rocketeer.errors import BadBody, RequestRefused, StoreRefused
from rocketeer.model.topic import RETRY_PREFIX, TRANS_HALF_TOPIC
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import PendingMessage, StoredMessage, decode_record
from rocketeer.record.properties import encode_properties
from support.broker import broker_at
from support.recordings import records_of
from support.stores import BORN_HOST, message
from support.transactions import COMMIT, GROUP, ROLLBACK, TOPIC, UNKNOWN, Rig

ENDED = "The transaction has ended before, or was set aside"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "store")


def ok(answer: Command | str) -> bool:
    return isinstance(answer, Command) and answer.code == ResponseCode.SUCCESS


def times_asked(half: StoredMessage) -> str | None:
    return half.properties_dict().get("TRANSACTION_CHECK_TIMES")


# --- how a transaction ends ---------------------------------------------------------------------


def test_a_half_message_is_out_of_sight_until_it_is_committed(rig: Rig) -> None:
    half = rig.prepare(b"yes", COLOUR="red")
    assert (half.topic, half.queue_id, half.sys_flag) == (TRANS_HALF_TOPIC, 0, 0)
    assert rig.delivered() == []
    assert ok(rig.end(half))
    assert rig.delivered() == [b"yes"]
    record = rig.store.message_at(rig.store.entries(TOPIC, 1, 0, 1)[0][0])
    assert record is not None
    assert (record.flag, record.prepared_offset, record.sys_flag) == (7, half.log_offset, 8)
    assert record.properties_dict()["COLOUR"] == "red"
    assert rig.ops() == [b"0"]


def test_a_transaction_ends_once_whoever_says_so_how_often(rig: Rig) -> None:
    first, second = rig.prepare(b"yes", "K1"), rig.prepare(b"no", "K2")
    assert ok(rig.end(first))
    assert ok(rig.end(second, ROLLBACK))
    for verdict in (COMMIT, ROLLBACK):
        assert rig.end(first, verdict) == ENDED
        assert rig.end(second, verdict) == ENDED
    assert rig.delivered() == [b"yes"]
    assert rig.ops() == [b"0", b"1"]


def test_an_unknown_state_changes_nothing(rig: Rig) -> None:
    half = rig.prepare()
    assert ok(rig.end(half, UNKNOWN))
    assert ok(rig.end(half))
    assert rig.delivered() == [b"half"]


def test_the_wrong_end_gets_rocketmqs_words(rig: Rig) -> None:
    half = rig.prepare()
    plain = rig.put(message(topic=TOPIC, queue_id=1)).appended[0]
    assert rig.end(half, producerGroup="other") == "The producer group wrong"
    assert rig.end(half, tranStateTableOffset=9) == "The transaction state table offset wrong"
    for offset in (plain.log_offset, half.log_offset + 1, 1 << 60, -1):
        answer = rig.end(half, commitLogOffset=offset, tranStateTableOffset=0)
        assert answer == "Find prepared transaction message failed"
    assert rig.end(half, 3) == "commitOrRollback is 3: 8 commits, 12 rolls back, 0 is unknown"
    assert rig.delivered() == [b"hello"]
    assert ok(rig.end(half))


def test_a_late_verdict_on_an_earlier_copy_counts(rig: Rig) -> None:
    """RocketMQ would deliver the message now, and once more when the copy's producer answers."""
    peer = rig.join()
    half = rig.prepare(b"late")
    rig.round()
    (question,) = peer.questions()
    assert question.ext["commitLogOffset"] != str(half.log_offset)
    assert ok(rig.end(half))
    assert rig.answer(question, COMMIT) == ENDED
    rig.round()
    assert peer.questions() == []
    assert rig.delivered() == [b"late"]


def test_what_the_store_does_not_take_now_is_still_pending(rig: Rig) -> None:
    first, second = rig.prepare(b"1", "K1"), rig.prepare(b"2", "K2")
    full = StoreRefused(StoreRefused.DISK_FULL, "98%")
    rig.store.log.refuse(full)
    answer = rig.end(first)
    assert isinstance(answer, Command)
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert rig.delivered() == []
    assert ok(rig.end(second, ROLLBACK)), "the verdict stands, its op message is owed"
    rig.round()
    rig.store.log.refuse(None)
    assert rig.end(second) == ENDED
    assert ok(rig.end(first))
    rig.round()
    assert sorted(rig.ops()) == [b"0", b"1"]
    assert rig.delivered() == [b"1"]


# --- what may be a half message -----------------------------------------------------------------


def test_transactions_may_be_rejected(tmp_path: Path) -> None:
    rig = Rig(tmp_path, rejected=True)
    put = rig.put(rig.half())
    assert (put.code, put.remark) == (
        ResponseCode.NO_PERMISSION,
        "the broker[127.0.0.1] sending transaction message is forbidden",
    )


def test_without_a_group_nobody_could_ever_end_it(rig: Rig) -> None:
    half = rig.half()
    half.properties = encode_properties({"TRAN_MSG": "true"})
    put = rig.put(half)
    assert put.code == ResponseCode.MESSAGE_ILLEGAL
    assert "PGROUP" in (put.remark or "")


def test_a_committed_message_that_is_consumed_again_is_no_half_message(rig: Rig) -> None:
    """It keeps TRAN_MSG for good."""
    for sys_flag, tries in ((8, 1), (0, 1), (8, 0)):
        again = rig.half(b"again")
        again.topic, again.sys_flag, again.reconsume_times = RETRY_PREFIX + "CG", sys_flag, tries
        assert rig.put(again).appended[0].topic == RETRY_PREFIX + "CG"
    not_true = rig.half(TRAN_MSG="false")
    not_true.sys_flag = 0
    assert rig.put(not_true).appended[0].topic == TOPIC


def test_the_delay_of_a_half_message_is_dropped(rig: Rig) -> None:
    half = rig.prepare(DELAY="3", TIMER_DELIVER_MS="99")
    assert half.topic == TRANS_HALF_TOPIC
    (stored,) = rig.halves()
    assert not {"DELAY", "TIMER_DELIVER_MS"} & set(stored.properties_dict())
    assert ok(rig.end(half))
    assert rig.delivered() == [b"half"]


async def test_a_batch_is_never_transactional(tmp_path: Path) -> None:
    async with broker_at(tmp_path, clock=ManualClock()) as broker:
        answer = await broker.send("T", b"\0" * 20, m="true", f=4)
        assert (answer.code, answer.remark) == (
            ResponseCode.MESSAGE_ILLEGAL,
            "batch request does not support transactions",
        )


# --- asking -------------------------------------------------------------------------------------


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
    (aside,) = rig.aside()
    assert aside.properties_dict()["REAL_TOPIC"] == TOPIC
    assert rig.end(half) == ENDED
    assert rig.progress() == (3, 0)
    assert ok(rig.resume(aside.log_offset))
    rig.round()
    (question,) = peer.questions()
    assert ok(rig.answer(question, COMMIT))
    assert rig.delivered() == [b"half"]
    assert len(rig.aside()) == 1


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
    assert rig.aside() == []
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
    again = Rig(rig.kill(tmp_path / "copy"), rig.clock)
    peer = again.join()
    again.round()
    assert [question.ext["msgId"] for question in peer.questions()] == ["K3", "K4"]
    assert ok(again.end(waits, producerGroup="nobody is here"))
    assert again.delivered() == [b"1", b"waits"]
    again.round()
    assert again.progress()[0] == again.table.half_offset > 4


def test_one_that_waits_too_far_behind_is_appended_anew(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_check, "BEHIND_MAX", 10)
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


# --- dying and living on ------------------------------------------------------------------------


def reopened(rig: Rig, copy: Path) -> Rig:
    return Rig(rig.kill(copy), rig.clock)


@pytest.mark.parametrize("saved", [False, True])
def test_a_pending_half_is_asked_after_in_the_next_life(rig: Rig, tmp_path: Path, saved: bool) -> None:
    half, other = rig.prepare(b"open", "K1"), rig.prepare(b"done", "K2")
    assert ok(rig.end(other))
    if saved:
        rig.save()
    rig = reopened(rig, tmp_path / "copy")
    peer = rig.join()
    rig.round()
    (question,) = peer.questions()
    assert question.ext["msgId"] == "K1"
    assert rig.end(other) == ENDED
    assert ok(rig.end(half))
    assert rig.delivered() == [b"done", b"open"]


@pytest.mark.parametrize("saved", [False, True])
def test_a_commit_whose_op_message_is_missing_was_a_commit(rig: Rig, tmp_path: Path, saved: bool) -> None:
    """The process died between the two appends."""
    half = rig.prepare(b"once")
    if saved:
        rig.save()
    stored = rig.store.message_at(half.log_offset)
    assert stored is not None
    rig.put(transaction_forms.committed(stored, half.log_offset), as_it_is=True)
    rig = reopened(rig, tmp_path / "copy")
    peer = rig.join()
    assert rig.end(half) == ENDED
    rig.round()
    assert rig.ops() == [b"0"], "written late"
    assert peer.questions() == []
    assert rig.delivered() == [b"once"]
    assert rig.progress() == (1, 1)


def test_a_saved_table_that_is_ahead_of_the_log_is_not_believed(rig: Rig, tmp_path: Path) -> None:
    half = rig.prepare(b"once")
    copy = tmp_path / "copy"
    shutil.copytree(rig.folder, copy)
    for n in range(5):
        assert ok(rig.end(rig.prepare(b"", f"N{n}")))
    assert ok(rig.end(half))
    rig.save()
    shutil.copytree(rig.folder / "config", copy / "config")
    rig.store.close()
    again = Rig(copy, rig.clock)
    assert ok(again.end(half))
    assert again.delivered() == [b"once"]


def test_a_rollback_of_a_copy_is_a_rollback_of_all(rig: Rig, tmp_path: Path) -> None:
    """Progress was saved before the half was appended anew, so the first copy is seen again."""
    peer = rig.join()
    rig.prepare()
    rig.save()
    rig.round()
    (question,) = peer.questions()
    assert ok(rig.answer(question, ROLLBACK))
    (rig.folder / "config" / rig.offsets.file_name).unlink()
    rig = reopened(rig, tmp_path / "copy")
    peer = rig.join()
    rig.round()
    assert peer.questions() == []
    assert sorted(rig.ops()) == [b"0", b"1"], "the first copy is settled for RocketMQ, too"


def scenario(rig: Rig) -> list[tuple[int, dict[str, str]]]:
    """Everything that can happen to a half message; after every save, how long the log was and what was saved."""
    saves: list[tuple[int, dict[str, str]]] = []

    def save() -> None:
        rig.save()
        texts = {path.name: path.read_text() for path in (rig.folder / "config").iterdir()}
        saves.append((rig.store.max_log_offset, texts))

    peer = rig.join()
    halves = {name: rig.prepare(name.encode(), name) for name in ("yes-0", "no-0", "yes-open", "no-open")}
    immune = rig.prepare(b"yes-immune", "yes-immune", CHECK_IMMUNITY_TIME_IN_SECONDS="300")
    waits = rig.prepare(b"yes-waits", "yes-waits", PGROUP="away")
    rig.end(halves["yes-0"])
    save()
    rig.end(halves["no-0"], ROLLBACK)
    rig.put(message(topic=TOPIC, queue_id=3, body=b"in between"))
    rig.round()
    peer.questions()
    late = {name: rig.prepare(name.encode(), name) for name in ("yes-1", "no-1", "yes-late")}
    rig.end(halves["yes-open"])
    save()
    rig.round()
    rig.end(late["yes-1"])
    rig.end(late["no-1"], ROLLBACK)
    rig.end(immune)
    rig.leave(peer)
    rig.round()
    save()
    rig.join()
    rig.end(waits, producerGroup="away")
    rig.round()
    return saves


@pytest.mark.parametrize("believes_tables", [True, False])
def test_killed_after_any_record_each_commit_is_delivered_once_and_no_rollback_ever(
    tmp_path: Path, believes_tables: bool
) -> None:
    rig = Rig(tmp_path / "store")
    saves = scenario(rig)
    rig.store.close()
    path = next((tmp_path / "store" / "commitlog").iterdir())
    log = path.read_bytes()
    records = list(records_of(log))
    assert len(records) > 30
    for number, last in enumerate(records):
        end = last.log_offset + last.size
        folder = tmp_path / f"killed-{number}"
        (folder / "commitlog").mkdir(parents=True)
        (folder / "commitlog" / path.name).write_bytes(log[:end].ljust(len(log), b"\0"))
        (folder / "abort").touch()
        texts = [texts for length, texts in saves if length <= end] if believes_tables else []
        if texts:
            (folder / "config").mkdir()
            for name, text in texts[-1].items():
                (folder / "config" / name).write_text(text)
        known = {r.uniq_key for r in records[: number + 1] if r.topic == TRANS_HALF_TOPIC}
        expected = Counter(key.encode() for key in known if key is not None and key.startswith("yes"))
        assert Counter(lived_on(folder, rig.clock)) == expected, (
            f"killed after {last.topic} at {last.log_offset}"
        )


def lived_on(folder: Path, clock: ManualClock) -> list[bytes]:
    """What is delivered in the end, when every producer answers."""
    rig = Rig(folder, clock)
    peers = [rig.join(group) for group in (GROUP, "away")]
    for _ in range(8):
        rig.round(after_ms=400_000)
        for peer in peers:
            for question in peer.questions():
                verdict = COMMIT if question.ext["msgId"].startswith("yes") else ROLLBACK
                group = decode_record(question.body).properties_dict()["PGROUP"]
                header = {
                    "producerGroup": group,
                    "tranStateTableOffset": question.ext["tranStateTableOffset"],
                    "commitLogOffset": question.ext["commitLogOffset"],
                    "commitOrRollback": verdict,
                }
                assert ok(rig.ask(37, header))
    assert not rig.table.pending
    assert not rig.table.owed
    delivered = rig.delivered()
    assert rig.aside() == []
    rig.close()
    return delivered


def test_one_set_aside_is_set_aside_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "store", times_max=1)
    rig.join()
    rig.prepare()
    rig.round()
    rig.save()
    rig.round()
    assert len(rig.aside()) == 1
    again = Rig(rig.kill(tmp_path / "copy"), rig.clock, times_max=1)
    again.join()
    again.round()
    assert len(again.aside()) == 1


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


def test_op_messages_of_rocketmq_5_name_several_halves(rig: Rig, tmp_path: Path) -> None:
    for n in range(4):
        rig.prepare(b"%d" % n, f"K{n}")
    op = transaction_forms.settled(0, now_ms=0, store_host=BORN_HOST)
    op.body = b"0,1,3,"
    rig.put(op, as_it_is=True)
    rig = reopened(rig, tmp_path / "copy")
    assert list(rig.table.pending.values()) == [2]
    rig.join()
    rig.round()
    assert rig.progress() == (4, 1)


def test_a_half_that_does_not_say_where_it_belongs_is_not_committed(rig: Rig) -> None:
    strange = rig.half()
    strange.topic, strange.queue_id, strange.sys_flag = TRANS_HALF_TOPIC, 0, 0
    entry: DispatchEntry = rig.put(strange, as_it_is=True).appended[0]
    assert "REAL_TOPIC is None" in str(rig.end(entry))
    assert ok(rig.end(entry, ROLLBACK))
    assert rig.delivered() == []


def test_refusals_reach_the_sender_of_a_message(rig: Rig) -> None:
    rejecting = Rig(rig.folder.parent / "other", rejected=True)
    (rewrite,) = rejecting.feature.rewrites
    with pytest.raises(RequestRefused):
        rewrite(rig.half())
    plain: PendingMessage = message(topic=TOPIC)
    rewrite(plain)
    assert plain.topic == TOPIC


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
