"""The compiled steps of the load generator and their plain twins do the same."""

import base64
import hmac
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.bench import steps, steps_plain
from rocketeer.bench.frames import FIRST_NUMBER
from rocketeer.compiled import COMPILED

FRAME = b"<NNNNNNNNNN|TTT|Q|NNNNNNNNNN|SSSSSSSSSSSSSSSSSSSS>"
PLACES = [(b"one", b"0"), (b"two", b"1"), (b"six", b"2")]


def reply(opaque: int, code: int = 0) -> bytes:
    header = b'{"code":%d,"flag":1,"language":"JAVA","opaque":%d,"version":399}' % (code, opaque)
    return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


def test_the_steps_are_compiled_where_the_brokers_are() -> None:
    assert (steps.Frames is not steps_plain.Frames) == COMPILED


@given(st.integers(FIRST_NUMBER, 2**31 - 50), st.lists(st.integers(0, 2**63 - 1), max_size=20), st.booleans())
def test_frames_carry_number_place_and_stamp(first: int, due_ns: list[int], stamped: bool) -> None:
    given_ = (FRAME, [1, 18], 12, 16, 29 if stamped else -1, PLACES)
    made = [kind(*given_).make(first, due_ns) for kind in (steps.Frames, steps_plain.Frames)]
    assert made[0] == made[1]
    for number, (due, at) in enumerate(zip(due_ns, range(0, len(made[0]), len(FRAME)), strict=True), first):
        topic, queue = PLACES[number % 3]
        stamp = b"%020d" % due if stamped else b"S" * 20
        assert made[0][at : at + len(FRAME)] == b"<%010d|%b|%b|%010d|%b>" % (
            number,
            topic,
            queue,
            number,
            stamp,
        )


@given(st.data(), st.lists(st.integers(1, 300_000_000), min_size=1, max_size=30))
def test_replies_are_counted_by_their_latency_however_they_arrive(
    data: st.DataObject, due_ns: list[int]
) -> None:
    now_ns = 400_000_000
    numbers = range(FIRST_NUMBER, FIRST_NUMBER + len(due_ns))
    codes = data.draw(st.lists(st.sampled_from([0, 0, 0, 2]), min_size=len(due_ns), max_size=len(due_ns)))
    order = data.draw(st.permutations([*zip(numbers, codes, strict=True)]))
    stream = b"".join(reply(number, code) for number, code in order) + reply(77)
    cut = data.draw(st.integers(0, len(stream)))
    seen = []
    for kind in (steps.Flight, steps_plain.Flight):
        flight, by_us, slow = kind(64), array("I", bytes(4 * 200_000)), list[int]()
        assert flight.begin(FIRST_NUMBER, due_ns)
        answered, last, end = flight.end(stream[:cut], now_ns, by_us, slow.append)
        refused = flight.refused
        more, more_last, more_end = flight.end(stream[end:], now_ns, by_us, slow.append)
        assert answered + more == len(due_ns) + 1
        assert refused + flight.refused == sum(code != 0 for code in codes)
        assert (flight.under_way, flight.mismatched) == (0, 1)
        assert end + more_end == len(stream)
        seen.append((answered, last, more_last, by_us, sorted(slow)))
    assert seen[0] == seen[1]
    fast, late = seen[0][3], seen[0][4]
    assert sum(fast) + len(late) == len(due_ns)
    assert late == sorted(us for due in due_ns if (us := (now_ns - due) // 1000) >= 200_000)


@pytest.mark.parametrize("kind", [steps.Flight, steps_plain.Flight])
def test_a_server_that_answers_nothing_is_noticed(kind: type[steps_plain.Flight]) -> None:
    flight = kind(8)
    assert flight.begin(FIRST_NUMBER, [1] * 8)
    assert not flight.begin(FIRST_NUMBER + 8, [1])
    assert flight.under_way == 8


@given(st.integers(1, 20), st.data())
def test_requests_leave_together_or_not_at_all(most: int, data: st.DataObject) -> None:
    flights = steps.Flight(most), steps_plain.Flight(most)
    by_us, number, waiting = array("I", bytes(4 * 10)), FIRST_NUMBER, list[int]()
    for count in data.draw(st.lists(st.integers(0, 8), max_size=10)):
        begun = [flight.begin(number, [1] * count) for flight in flights]
        assert begun[0] == begun[1]
        assert begun[0] or not waiting or len(waiting) + count > most or number + count - waiting[0] > most
        if begun[0]:
            waiting += range(number, number + count)
            number += count
        answered = data.draw(st.lists(st.sampled_from(waiting), unique=True)) if waiting else []
        for flight in flights:
            assert flight.end(b"".join(map(reply, answered)), 5_000, by_us, print)[0] == len(answered)
        waiting = [each for each in waiting if each not in answered]
        assert [(flight.under_way, flight.mismatched) for flight in flights] == [(len(waiting), 0)] * 2


@given(st.integers(FIRST_NUMBER, 2**31 - 50), st.integers(0, 5), st.binary(min_size=1, max_size=80))
def test_signed_frames_carry_the_signature_of_their_content(first: int, count: int, secret: bytes) -> None:
    content = b"key NNNNNNNNNN TTT Q and the body"
    frame = b"<NNNNNNNNNN|TTT|Q|" + b"X" * 28 + b">"
    made = []
    for kind in (steps.Frames, steps_plain.Frames):
        frames = kind(frame, [1], 12, 16, -1, PLACES)
        frames.sign(kind(content, [4], 15, 19, -1, PLACES), secret, 18)
        made.append(frames.make(first, [0] * count))
    assert made[0] == made[1]
    for number, at in enumerate(range(0, len(made[0]), len(frame)), first):
        topic, queue = PLACES[number % 3]
        signed = b"key %010d %b %b and the body" % (number, topic, queue)
        signature = base64.b64encode(hmac.digest(secret, signed, "sha1"))
        assert made[0][at + 18 : at + 46] == signature
