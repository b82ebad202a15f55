"""A walk over the log passes over records that nobody wants to see, and over no other bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rocketeer.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketeer.record import skip_plain
from rocketeer.record.flags import TX_COMMIT, TX_PREPARED, TX_ROLLBACK
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.record.properties import encode_properties
from rocketeer.record.skip import SkipFilter, Skipper

BASE = 1 << 30
HOST = encode_host("127.0.0.1", 10911)
PLAIN = PendingMessage("T", 0, 0, 0, 1, HOST, b"body" * 30, encode_properties({"KEYS": "k", "WAIT": "true"}))
WANTED = SkipFilter(
    frozenset({"SkipFilter"}), ("%DLQ%",), ("DELAY", "a property of a name that is " + "long " * 20)
)

OTHERS = {
    "wanted topic": replace(PLAIN, topic="SkipFilter"),
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

KINDS: list[Any] = sorted({Skipper, skip_plain.Skipper}, key=lambda kind: kind.__module__)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__module__)
def kind(request: pytest.FixtureRequest) -> Any:
    """Compiled or plain."""
    return request.param


def log_of(*messages: PendingMessage, base: int = BASE) -> tuple[bytes, list[int]]:
    """Records behind each other, and where each begins."""
    log, places = b"", []
    for number, each in enumerate(messages):
        places.append(len(log))
        log += encode_pending(
            each, queue_offset=number, log_offset=base + len(log), store_ms=1_000 + number, store_host=HOST
        )
    return log, [*places, len(log)]


def take(skipper: Any, log: bytes, at: int = 0, stop: int = 1 << 62) -> int:
    found: int = skipper.take(log, at, BASE, stop)
    return found


def test_plain_records_are_passed_over_to_the_end_of_what_is_there(kind: Any) -> None:
    log, places = log_of(*[PLAIN] * 5)
    skipper = kind(WANTED, BASE + places[3])
    assert take(skipper, log + bytes(300)) == places[5]
    assert skipper.passed_boundary
    assert skipper.last_store_ms == 1_004
    assert take(kind(WANTED), log[:-1]) == places[4], "the last one is not whole"
    assert take(kind(WANTED), log, places[2]) == places[5]


def test_none_is_passed_over_that_begins_at_the_stop_or_behind(kind: Any) -> None:
    log, places = log_of(*[PLAIN] * 5)
    assert take(kind(WANTED), log, stop=BASE + places[2]) == places[2]
    assert take(kind(WANTED), log, stop=BASE + places[2] - 1) == places[2]
    assert take(kind(WANTED), log, stop=BASE) == 0


def test_a_place_inside_of_a_record_is_no_boundary(kind: Any) -> None:
    log, places = log_of(*[PLAIN] * 3)
    skipper = kind(WANTED, BASE + places[1] + 8)
    assert take(skipper, log) == places[3]
    assert not skipper.passed_boundary


@pytest.mark.parametrize("why", OTHERS)
def test_whatever_is_wanted_or_rare_is_shown(kind: Any, why: str) -> None:
    log, places = log_of(PLAIN, OTHERS[why], PLAIN)
    assert take(kind(WANTED), log, places[1]) == places[1]
    assert take(kind(WANTED), log) == places[1]


@pytest.mark.parametrize("at", [0, 4, 8, 28, 84, 100])
def test_bytes_that_are_no_whole_record_of_this_place_are_not_passed_over(kind: Any, at: int) -> None:
    log, _ = log_of(PLAIN, PLAIN)
    damaged = bytearray(log)
    damaged[at] ^= 0x40
    assert take(kind(WANTED), bytes(damaged)) == 0
    assert take(kind(WANTED), b"") == 0
    assert take(kind(WANTED), bytes(200)) == 0
    elsewhere, _ = log_of(PLAIN, base=BASE + 1)
    assert take(kind(WANTED), elsewhere) == 0


def test_a_record_that_a_sender_wrote_into_a_body_is_passed_over_with_it(kind: Any) -> None:
    forged, _ = log_of(OTHERS["points to another"])
    log, places = log_of(replace(PLAIN, body=forged), PLAIN)
    assert take(kind(WANTED), log) == places[2]


names = st.sampled_from(["KEYS", "DELAY", "x", WANTED.properties[1]])
stored = st.builds(
    PendingMessage,
    topic=st.sampled_from(["T", "größe", "SkipFilter", "%DLQ%g", SCHEDULE_TOPIC]),
    queue_id=st.just(0), flag=st.just(0), sys_flag=st.sampled_from([0, 0, 0, 1, TX_COMMIT]), born_ms=st.just(1),
    born_host=st.just(HOST), body=st.binary(max_size=9),
    properties=st.dictionaries(names, st.sampled_from(["", "3", "\0"]), max_size=2).map(encode_properties),
    prepared_offset=st.sampled_from([0, 0, 0, 5]),
)  # fmt: skip


@given(
    st.lists(stored, max_size=5),
    st.lists(st.tuples(st.integers(0, 600), st.integers(1, 255)), max_size=2),
    st.data(),
)
def test_both_pass_over_the_same(
    pending: list[PendingMessage], flips: list[tuple[int, int]], data: st.DataObject
) -> None:
    log, places = log_of(*pending)
    damaged = bytearray(log)
    for at, bits in flips:
        if at < len(log):
            damaged[at] ^= bits
    boundary, stop = (BASE + data.draw(st.sampled_from([*places, 1 << 40])) for _ in range(2))
    start = data.draw(st.sampled_from([*places, 3]))
    answers = []
    for kind in KINDS:
        skipper = kind(WANTED, boundary)
        answers.append(
            (skipper.take(bytes(damaged), start, BASE, stop), skipper.last_store_ms, skipper.passed_boundary)
        )
    assert len(set(answers)) == 1
