"""The walk over records: its compiled and its plain form agree, on good bytes and on any others."""

import random
from pathlib import Path
from typing import Any

import pytest

from rocketeer.compiled import COMPILED
from rocketeer.record import walk_plain
from rocketeer.record.flags import TX_ROLLBACK
from rocketeer.record.hosts import encode_host
from rocketeer.record.java_hash import index_hash
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.record.properties import encode_properties
from rocketeer.record.walk import BAD_CRC, BAD_PLACE, Stop, Topics, find_record, walk, walk_piece

DATA = Path(__file__).parents[2] / "golden" / "data"
V4, V6 = encode_host("127.0.0.1", 10911), encode_host("2001:db8::1", 10911)
BASE = 1 << 30


def records(count: int = 60) -> bytes:
    raw = bytearray()
    for number in range(count):
        properties = {
            "TAGS": "ü" if number % 7 == 0 else f"t{number}",
            "KEYS": f"a{number}  b ç" if number % 5 == 0 else "k",
        }
        properties |= {"UNIQ_KEY": f"{number:032X}", "DELAY": "4", "user": "x"}
        pending = PendingMessage(
            topic=("Orders", "SCHEDULE_TOPIC_XXXX", "Größe")[number % 3],
            queue_id=number % 4,
            flag=0,
            sys_flag=TX_ROLLBACK if number % 11 == 0 else 0,
            born_ms=1,
            born_host=V6 if number % 6 == 0 else V4,
            body=b"x" * (number * 7 % 300),
            properties=encode_properties(properties),
        )
        raw += encode_pending(
            pending, queue_offset=number, log_offset=BASE + len(raw), store_ms=1_700_000_000_000 + number,
            store_host=V6 if number % 4 == 0 else V4,
        )  # fmt: skip
    return bytes(raw)


def both(raw: bytes, start: int = 0, stop: int | None = None, base: int = BASE) -> walk_plain.Walked:
    end = len(raw) if stop is None else stop
    ours, plain = Topics(), Topics()
    found = walk_piece(raw, start, end, base, ours)
    assert found == walk_plain.walk_piece(raw, start, end, base, plain)
    assert ours.names == plain.names
    return found


@pytest.mark.skipif(not COMPILED, reason="the plain walk reads once")
def test_a_record_that_is_written_while_the_walk_asks_why_it_ended_there_is_passed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = records(3)
    begin = int(walk(raw, 0, len(raw), BASE, Topics()).rows["at"][1])
    growing = bytearray(raw)
    growing[begin : begin + 8] = bytes(8)
    plain = walk_plain.walk_piece

    def write_first(*asked: Any) -> walk_plain.Walked:
        growing[begin : begin + 8] = raw[begin : begin + 8]
        return plain(*asked)

    monkeypatch.setattr(walk_plain, "walk_piece", write_first)
    found = walk(growing, 0, len(raw), BASE, Topics())
    assert (found.stop, found.end, len(found.rows)) == (Stop.RANGE, len(raw), 3)


def test_every_record_is_passed_with_what_queues_and_index_must_say_of_it() -> None:
    raw = records()
    both(raw)
    found = walk(raw, 0, len(raw), BASE, topics := Topics())
    assert (found.stop, found.end, len(found.rows)) == (Stop.RANGE, len(raw), 60)
    assert not found.rows["faults"].any()
    assert found.rows["level"][1] == 4
    assert found.rows["level"][0] == 0  # only where delayed messages wait
    assert topics.names == ["Orders", "SCHEDULE_TOPIC_XXXX", "Größe"]
    keys = {row: [] for row in range(60)}
    for row, hashed in found.keys.tolist():
        keys[row].append(hashed)
    assert keys[11] == [], "nobody finds what was rolled back"
    assert keys[5] == [index_hash(f"Größe#{key}") for key in (f"{5:032X}", "a5", "b", "ç")]


@pytest.mark.parametrize("name", ["store_full", "store_crashed"])
def test_both_forms_agree_on_a_java_brokers_log(name: str) -> None:
    raw = (DATA / name / "commitlog" / f"{0:020d}").read_bytes()
    assert both(raw, base=0)[3] == Stop.RANGE
    assert both(raw + bytes(100), base=0)[3] == Stop.UNWRITTEN


def test_both_forms_agree_on_any_changed_byte() -> None:
    raw = records(20)
    chance = random.Random(3)
    for _ in range(1500):
        spoilt = bytearray(raw)
        spoilt[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        both(bytes(spoilt[: chance.choice([len(raw), chance.randrange(len(raw))])]))


def test_faults_a_record_shows_by_itself() -> None:
    raw = bytearray(records(3))
    size = int.from_bytes(raw[:4], "big")
    raw[-1 - 60] ^= 1  # somewhere in the last record's properties: nothing there has a checksum
    second_body = size + 88
    raw[second_body] ^= 1
    found = walk(bytes(raw), 0, len(raw), BASE, Topics())
    assert found.rows["faults"].tolist() == [0, BAD_CRC, 0]
    elsewhere = walk(bytes(raw), 0, len(raw), BASE + 8, Topics())
    assert (elsewhere.rows["faults"] & BAD_PLACE).all()


def test_a_record_is_found_from_any_place_before_it_and_only_where_it_says_it_stands() -> None:
    raw = records(30)
    begins = walk(raw, 0, len(raw), BASE, Topics()).rows["at"].tolist()
    for start in range(0, len(raw), 17):
        assert find_record(raw, start, len(raw), BASE) == next((at for at in begins if at >= start), None)
    assert find_record(raw, 0, len(raw), BASE + 1) is None
