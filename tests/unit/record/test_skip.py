"""A walk over the log passes over records that nobody wants to see, and over no other bytes."""

import pytest
from msgspec.structs import replace

from rocketeer.compiled import COMPILED
from rocketeer.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketeer.record.flags import TX_COMMIT, TX_PREPARED, TX_ROLLBACK
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.record.properties import encode_properties
from rocketeer.record.skip import Skipper, Wanted

BASE = 1 << 30
HOST = encode_host("127.0.0.1", 10911)
PLAIN = PendingMessage("T", 0, 0, 0, 1, HOST, b"body" * 30, encode_properties({"KEYS": "k", "WAIT": "true"}))
WANTED = Wanted(frozenset({"Wanted"}), ("%DLQ%",), ("DELAY", "a property of a name that is " + "long " * 20))

OTHERS = {
    "wanted topic": replace(PLAIN, topic="Wanted"),
    "wanted prefix": replace(PLAIN, topic="%DLQ%group"),
    "wanted property": replace(PLAIN, properties=encode_properties({"KEYS": "k", "DELAY": "3"})),
    "wanted long property": replace(PLAIN, properties=encode_properties({WANTED.properties[1]: "x"})),
    "waits": replace(PLAIN, topic=SCHEDULE_TOPIC),
    "timed": replace(PLAIN, topic=TIMER_TOPIC),
    "half": replace(PLAIN, sys_flag=TX_PREPARED),
    "commit of the record at 0": replace(PLAIN, sys_flag=TX_COMMIT),
    "rolled back": replace(PLAIN, sys_flag=TX_ROLLBACK),
    "points to another": replace(PLAIN, prepared_offset=-8),
    "zeros in its properties": replace(PLAIN, properties=PLAIN.properties + bytes(9)),
    "IPv6": replace(PLAIN, born_host=encode_host("2001:db8::1", 4000), sys_flag=0x10),
}

needs_compiled = pytest.mark.skipif(not COMPILED, reason="without compiled modules nothing is passed over")


def log_of(*messages: PendingMessage, base: int = BASE) -> tuple[bytes, list[int]]:
    """Records behind each other, and where each begins."""
    log, places = b"", []
    for number, each in enumerate(messages):
        places.append(len(log))
        log += encode_pending(
            each, queue_offset=number, log_offset=base + len(log), store_ms=1_000 + number, store_host=HOST
        )
    return log, [*places, len(log)]


def take(log: bytes, at: int = 0, *, skipper: Skipper | None = None, stop: int = 1 << 62) -> int:
    return (skipper or Skipper(WANTED)).take(log, at, BASE, stop)


@needs_compiled
def test_plain_records_are_passed_over_to_the_end_of_what_is_there() -> None:
    log, places = log_of(*[PLAIN] * 5)
    skipper = Skipper(WANTED, BASE + places[3])
    assert take(log + bytes(300), skipper=skipper) == places[5]
    assert skipper.met
    assert skipper.last_store_ms == 1_004
    assert take(log[:-1]) == places[4], "the last one is not whole"
    assert take(log, places[2]) == places[5]


@needs_compiled
def test_none_is_passed_over_that_begins_at_the_stop_or_behind() -> None:
    log, places = log_of(*[PLAIN] * 5)
    assert take(log, stop=BASE + places[2]) == places[2]
    assert take(log, stop=BASE + places[2] - 1) == places[2]
    assert take(log, stop=BASE) == 0


@needs_compiled
def test_a_place_inside_of_a_record_is_not_met() -> None:
    log, places = log_of(*[PLAIN] * 3)
    skipper = Skipper(WANTED, BASE + places[1] + 8)
    assert take(log, skipper=skipper) == places[3]
    assert not skipper.met


@pytest.mark.parametrize("why", OTHERS)
def test_whatever_is_wanted_or_rare_is_shown(why: str) -> None:
    log, places = log_of(PLAIN, OTHERS[why], PLAIN)
    assert take(log, places[1]) == places[1]
    assert take(log) == (places[1] if COMPILED else 0)


@pytest.mark.parametrize("at", [0, 4, 8, 28, 84, 100])
def test_bytes_that_are_no_whole_record_of_this_place_are_not_passed_over(at: int) -> None:
    log, _ = log_of(PLAIN, PLAIN)
    damaged = bytearray(log)
    damaged[at] ^= 0x40
    assert take(bytes(damaged)) == 0
    assert take(b"") == 0
    assert take(bytes(200)) == 0
    elsewhere, _ = log_of(PLAIN, base=BASE + 1)
    assert take(elsewhere) == 0


def test_a_record_that_a_sender_wrote_into_a_body_is_passed_over_with_it() -> None:
    forged, _ = log_of(OTHERS["points to another"])
    log, places = log_of(replace(PLAIN, body=forged), PLAIN)
    assert take(log) == (places[2] if COMPILED else 0)
