"""Transactions over several lives of a broker: whatever dies when, each commit is delivered once, no rollback ever."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from rocketeer.broker.features.transaction import messages
from rocketeer.model.topic import TRANS_HALF_TOPIC
from rocketeer.record.layout import decode_record
from support.clock import ManualClock
from support.recordings import records_of
from support.stores import BORN_HOST, message
from support.transactions import COMMIT, ENDED, GROUP, ROLLBACK, TOPIC, Rig, ok


@pytest.mark.parametrize("saved", [False, True])
def test_a_pending_half_is_asked_after_in_the_next_life(rig: Rig, tmp_path: Path, saved: bool) -> None:
    half, other = rig.prepare(b"open", "K1"), rig.prepare(b"done", "K2")
    assert ok(rig.end(other))
    if saved:
        rig.save()
    rig = rig.reopened(tmp_path / "copy")
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
    rig.put(messages.committed(stored, half.log_offset), internal=True)
    rig = rig.reopened(tmp_path / "copy")
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
    rig = rig.reopened(tmp_path / "copy")
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
    assert not rig.table.pending_ops
    delivered = rig.delivered()
    assert rig.given_up() == []
    rig.close()
    return delivered


def test_one_set_aside_is_set_aside_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "store", times_max=1)
    rig.join()
    rig.prepare()
    rig.round()
    rig.save()
    rig.round()
    assert len(rig.given_up()) == 1
    again = Rig(rig.kill(tmp_path / "copy"), rig.clock, times_max=1)
    again.join()
    again.round()
    assert len(again.given_up()) == 1


def test_op_messages_of_rocketmq_5_name_several_halves(rig: Rig, tmp_path: Path) -> None:
    for n in range(4):
        rig.prepare(b"%d" % n, f"K{n}")
    op = messages.op_message(0, now_ms=0, store_host=BORN_HOST)
    op.body = b"0,1,3,"
    rig.put(op, internal=True)
    rig = rig.reopened(tmp_path / "copy")
    assert list(rig.table.pending.values()) == [2]
    rig.join()
    rig.round()
    assert rig.progress() == (4, 1)
