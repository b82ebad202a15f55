"""The laws of transactions at the broker: delivered once, or never; what may be one, and how it ends."""

from pathlib import Path

import pytest

from rocketeer.errors import RequestRefused, StoreRefused
from rocketeer.model.topic import RETRY_PREFIX, TRANS_HALF_TOPIC
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import PendingMessage
from rocketeer.record.properties import encode_properties
from support.broker import broker_at
from support.clock import ManualClock
from support.stores import message
from support.transactions import COMMIT, ENDED, ROLLBACK, TOPIC, UNKNOWN, Rig, ok

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
    answer = rig.end(second, ROLLBACK)
    assert isinstance(answer, Command)
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, (
        "the verdict stands, but no disk knows of it yet"
    )
    rig.round()
    rig.store.log.refuse(None)
    assert rig.end(second) == ENDED
    assert ok(rig.end(first))
    rig.round()
    assert sorted(rig.ops()) == [b"0", b"1"]
    assert rig.delivered() == [b"1"]


def test_a_half_that_does_not_say_where_it_belongs_is_not_committed(rig: Rig) -> None:
    strange = rig.half()
    strange.topic, strange.queue_id, strange.sys_flag = TRANS_HALF_TOPIC, 0, 0
    entry: DispatchEntry = rig.put(strange, internal=True).appended[0]
    assert "REAL_TOPIC is None" in str(rig.end(entry))
    assert ok(rig.end(entry, ROLLBACK))
    assert rig.delivered() == []


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


def test_refusals_reach_the_sender_of_a_message(rig: Rig) -> None:
    rejecting = Rig(rig.folder.parent / "other", rejected=True)
    (rewrite,) = rejecting.admission.rewrites
    with pytest.raises(RequestRefused):
        rewrite(rig.half())
    plain: PendingMessage = message(topic=TOPIC)
    rewrite(plain)
    assert plain.topic == TOPIC
