"""Transactions recorded from RocketMQ 4.9.8, gone through again: every record of its log comes out in its place.

Whatever stands in the recorded log between the transactions is appended as it is. One thing differs on purpose: a half
message whose group has no producer waits, where RocketMQ counts it as asked; so here every group has one.
"""

import json
from pathlib import Path
from typing import Any

from rocketeer.model.topic import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketeer.protocol.command import Command
from rocketeer.record.layout import PendingMessage, StoredMessage, decode_record
from rocketeer.record.properties import encode_properties
from support.clock import ManualClock
from support.recordings import DATA, SEGMENT_BYTES, comparable, place_log, recorded_log, records_of
from support.transactions import COMMIT, ROLLBACK, Rig

FIRST_HALF = 24208


def as_sent(record: StoredMessage) -> PendingMessage:
    """What the producer of a recorded half message sent."""
    properties = record.properties_dict()
    return PendingMessage(
        topic=properties.pop("REAL_TOPIC"),
        queue_id=int(properties.pop("REAL_QID")),
        flag=record.flag,
        sys_flag=4,
        born_ms=record.born_ms,
        born_host=record.born_host,
        body=record.body,
        properties=encode_properties(properties),
    )


def internal(record: StoredMessage) -> PendingMessage:
    return PendingMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_ms=record.born_ms,
        born_host=record.born_host,
        body=record.body,
        properties=record.properties,
        reconsume_times=record.reconsume_times,
    )


class Replayed:
    """Makes happen what the recorded log says happened next."""

    def __init__(self, folder: Path) -> None:
        place_log(folder, FIRST_HALF)
        self.clock = ManualClock(start_ms=1_794_729_000_000)
        self.rig = Rig(
            folder,
            self.clock,
            timeout_ms=2_000,
            times_max=3,
            segment_bytes=SEGMENT_BYTES,
            message_bytes_max=65536,
        )
        self.peers = {group: self.rig.join(group) for group in ("PG_tx", "PG_tracetx", "PG_crash")}
        self.recorded = {record.log_offset: record for record in records_of(recorded_log())}
        self.halves = {r.queue_offset: r for r in self.recorded.values() if r.topic == TRANS_HALF_TOPIC}

    def make(self, record: StoredMessage) -> None:
        properties = record.properties_dict()
        self.clock.advance(ms=max(record.store_ms - self.clock.now_ms(), 0))
        if record.topic == TRANS_HALF_TOPIC and "TRANSACTION_CHECK_TIMES" not in properties:
            assert self.rig.put(as_sent(record)).stored
        elif record.topic == TRANS_HALF_TOPIC and properties["TRANSACTION_CHECK_TIMES"] == "0":
            assert isinstance(self.rig.resume(26999), Command)
        elif record.topic in (TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC):
            self.rig.round(after_ms=0)
        elif record.prepared_offset:
            half = self.recorded[record.prepared_offset]
            self.end(half, COMMIT)
        elif record.topic == TRANS_OP_HALF_TOPIC:
            self.end(self.halves[int(record.body)], ROLLBACK)
        else:
            assert self.rig.put(internal(record), internal=True).stored

    def end(self, half: StoredMessage, verdict: int) -> None:
        header = {
            "producerGroup": half.properties_dict()["PGROUP"],
            "tranStateTableOffset": half.queue_offset,
            "commitLogOffset": half.log_offset,
            "commitOrRollback": verdict,
        }
        answer = self.rig.ask(37, header)
        assert isinstance(answer, Command), answer
        assert answer.code == 0


def same(ours: StoredMessage, recorded: StoredMessage) -> None:
    """Equal but for times; the born time of an op message is when the broker made it."""
    mine, theirs = comparable(ours), comparable(recorded)
    if recorded.topic == TRANS_OP_HALF_TOPIC:
        mine["born_ms"] = theirs["born_ms"]
    assert mine == theirs
    assert ours.store_host == recorded.store_host


def test_every_hop_of_a_transaction_is_stored_as_recorded(tmp_path: Path) -> None:
    replayed = Replayed(tmp_path)
    checked: dict[str, int] = {}
    end = max(r.log_offset for r in replayed.recorded.values() if r.topic == TRANS_CHECK_MAX_TIME_TOPIC)
    for log_offset, record in replayed.recorded.items():
        if not FIRST_HALF <= log_offset <= end:
            continue
        ours = replayed.rig.store.message_at(log_offset)
        if ours is None:
            assert replayed.rig.store.max_log_offset == log_offset, "nothing lies between"
            replayed.make(record)
            ours = replayed.rig.store.message_at(log_offset)
        assert ours is not None, comparable(record)
        same(ours, record)
        checked[record.topic] = checked.get(record.topic, 0) + 1
    assert checked[TRANS_HALF_TOPIC] == 30
    assert checked[TRANS_OP_HALF_TOPIC] == 6
    assert checked[TRANS_CHECK_MAX_TIME_TOPIC] == 5
    assert checked["TxTopic"] == 3
    replayed.rig.round()
    assert replayed.rig.progress() == (30, 6), "the progress that RocketMQ saved"
    replayed.rig.close()


def test_producers_are_asked_in_the_recorded_words(tmp_path: Path) -> None:
    """39: header and body, as a Java producer got them."""
    replayed = Replayed(tmp_path)
    frames = [json.loads(line) for line in (DATA / "wire" / "transaction.jsonl").open()]
    asked: dict[str, Any] = {
        frame["header"]["extFields"]["commitLogOffset"]: frame
        for frame in frames
        if frame["header"]["code"] == 39
    }
    for log_offset, record in replayed.recorded.items():
        if FIRST_HALF <= log_offset < 31139 and replayed.rig.store.message_at(log_offset) is None:
            replayed.make(record)
    ours = replayed.peers["PG_tx"].questions()
    compared = 0
    for question in ours:
        recorded = asked.pop(question.ext["commitLogOffset"], None)
        if recorded is None:
            continue  # the recording leaves out repetitions
        assert question.ext == recorded["header"]["extFields"]
        assert question.is_oneway
        mine, theirs = decode_record(question.body), decode_record(bytes.fromhex(recorded["body_hex"]))
        assert comparable(mine) == comparable(theirs)
        compared += 1
    assert compared >= 6
    assert not asked, "all that RocketMQ asked, we ask"
    replayed.rig.close()
