"""The compiled walk of a slave gives what `entry_at` gives, record by record, whatever the bytes are."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.errors import BadRecord
from rocketeer.record import entries_plain
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.entries import entries_in, plain_entries
from rocketeer.record.entry import entry_at
from rocketeer.record.flags import BORN_HOST_V6
from rocketeer.record.layout import PendingMessage, encode_pending

LEVELS = DelayLevels.parse("1s 5s 10s")
V4, V6 = bytes([127, 0, 0, 1, 0, 0, 42, 159]), bytes(20)
FILE_END = 1 << 30

properties = st.lists(
    st.builds(
        "{}\x01{}".format,
        st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "x", "größe"]),
        st.one_of(st.text(max_size=8), st.integers(-3, 20).map(str)),
    ),
    max_size=5,
).map(lambda pieces: "\x02".join(pieces).encode())
messages = st.builds(
    PendingMessage,
    topic=st.sampled_from(["T", "größe", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "%RETRY%g"]),
    queue_id=st.integers(0, 2**31 - 1),
    flag=st.just(0),
    sys_flag=st.sampled_from([0, 4, 8, 12, BORN_HOST_V6]),
    born_ms=st.just(1),
    born_host=st.just(V4),
    body=st.binary(max_size=30),
    properties=properties,
    prepared_offset=st.integers(-(2**62), 2**62),
)


def encode_all(pending: list[PendingMessage]) -> bytes:
    log = b""
    for number, message in enumerate(pending):
        message.born_host = V6 if message.sys_flag & BORN_HOST_V6 else V4
        log += encode_pending(message, queue_offset=number, log_offset=len(log), store_ms=7, store_host=V4)
    return log


def one_by_one(log: bytes) -> tuple[list[DispatchEntry], int]:
    found, at = [], 0
    while len(log) - at >= 8:
        entry = entry_at(log, at, LEVELS, check_crc=True)
        if not isinstance(entry, DispatchEntry) or entry.log_offset != at:
            raise BadRecord(at=at, reason="no record")
        found.append(entry)
        at += entry.size
    return found, at


@settings(deadline=None)
@given(st.lists(messages, max_size=8))
def test_many_at_a_time_are_the_same_as_one_by_one(pending: list[PendingMessage]) -> None:
    log = encode_all(pending)
    found, rest = entries_in(log, 0, FILE_END, LEVELS)
    assert (found, rest.end) == one_by_one(log)


@settings(deadline=None)
@given(st.lists(messages, min_size=1, max_size=5), st.data())
def test_a_log_cut_anywhere_gives_the_whole_records_before_the_cut(
    pending: list[PendingMessage], data: st.DataObject
) -> None:
    log = encode_all(pending)
    cut = data.draw(st.integers(0, len(log)))
    found, rest = entries_in(log[:cut], 0, FILE_END, LEVELS)
    assert found == [entry for entry in one_by_one(log)[0] if entry.end <= cut]
    assert rest.wanted_bytes > cut - rest.end


@settings(deadline=None)
@given(st.lists(messages, min_size=1, max_size=4), st.data())
def test_a_changed_byte_is_an_error_or_an_entry_that_entry_at_would_give(
    pending: list[PendingMessage], data: st.DataObject
) -> None:
    log = bytearray(encode_all(pending))
    log[data.draw(st.integers(0, len(log) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found, _ = entries_in(bytes(log), 0, FILE_END, LEVELS)
    except BadRecord:
        return
    for entry in found:
        assert entry == entry_at(bytes(log), entry.log_offset, LEVELS, check_crc=True)


@settings(deadline=None)
@given(st.lists(messages, max_size=5), st.lists(st.tuples(st.integers(0, 999), st.integers(1, 255)), max_size=2),
       st.integers(0, 300), st.sampled_from([0, 1, 3, 1 << 62]))  # fmt: skip
def test_the_plain_twin_finds_the_same_entries(
    pending: list[PendingMessage], flips: list[tuple[int, int]], start: int, count: int
) -> None:
    log = bytearray(encode_all(pending))
    for at, bits in flips:
        if at < len(log):
            log[at] ^= bits
    for begin in (0, min(start, len(log))):
        expected = entries_plain.plain_entries(bytes(log), begin, 0, count)
        assert plain_entries(bytes(log), begin, 0, count) == expected
