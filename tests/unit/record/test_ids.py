"""Message ids: what they hold comes out again, and no two are alike."""

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from rocketeer.errors import BadMessageId
from rocketeer.record.hosts import decode_host, encode_host, host_text
from rocketeer.record.ids import UniqKeys, decode_uniq_key_time, offset_msg_id, parse_offset_msg_id
from support.clock import ManualClock


def ms(*when: int) -> int:
    return round(datetime(*when, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize("ip", ["10.1.2.3", "2001:db8::7"])
def test_offset_ids_hold_host_and_offset(ip: str) -> None:
    host = encode_host(ip, 10911)
    text = offset_msg_id(host, (1 << 40) + 5)
    assert parse_offset_msg_id(text) == (host, (1 << 40) + 5)
    assert parse_offset_msg_id(text.lower()) == (host, (1 << 40) + 5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7F",
        "x" * 32,
        "7F00000100002A9F00000000075BCD1",
        "7F 0000100002A9F00000000075BCD15 ",
        "7F00000100002A9FFFFFFFFFFFFFFFFF",
    ],
)
def test_anything_else_is_no_offset_id(text: str) -> None:
    with pytest.raises(BadMessageId):
        parse_offset_msg_id(text)


def test_hosts_read_as_they_were_written() -> None:
    assert decode_host(encode_host("1.2.3.4", 5)) == ("1.2.3.4", 5)
    assert decode_host(encode_host("2001:db8::7", 5)) == ("2001:db8::7", 5)
    assert host_text(encode_host("2001:db8::7", 5)) == "[2001:db8::7]:5"
    assert encode_host("::ffff:1.2.3.4", 5) == encode_host("1.2.3.4", 5)
    with pytest.raises(ValueError, match="8 or 20 bytes"):
        decode_host(b"1234567")
    with pytest.raises(ValueError, match="nowhere"):
        encode_host("nowhere", 5)


def test_a_unique_key_lays_out_ip_pid_instance_time_and_count() -> None:
    clock = ManualClock(ms(2024, 2, 1, 0, 0, 1))
    keys = UniqKeys("10.1.2.3", 0x1_0203, clock, instance=0xAABBCCDD, tz=UTC)
    assert keys.next() == "0A010203" + "0203" + "AABBCCDD" + "000003E8" + "0000"
    assert keys.next().endswith("000003E8" + "0001")
    assert len(UniqKeys("2001:db8::7", 1, clock).next()) == 56


def test_the_time_starts_anew_with_the_month_and_when_the_clock_is_set_back() -> None:
    clock = ManualClock(ms(2024, 12, 31, 23, 59, 59))
    keys = UniqKeys("10.1.2.3", 1, clock, instance=0, tz=UTC)
    assert keys.next()[20:28] == f"{31 * 86_400_000 - 1000:08X}"
    clock.advance(ms=1500)
    assert keys.next()[20:28] == f"{500:08X}"
    clock._ms -= 1000
    assert keys.next()[20:28] == f"{31 * 86_400_000 - 500:08X}"


def test_the_time_in_a_key_is_found_again_in_any_zone() -> None:
    zone = timezone(timedelta(hours=8))
    for now in (ms(2024, 3, 31, 17), ms(2024, 3, 31, 15), ms(2024, 1, 1), ms(2024, 2, 29, 12)):
        key = UniqKeys("10.1.2.3", 1, ManualClock(now), tz=zone).next()
        assert decode_uniq_key_time(key, now + 60_000, zone) == now
    with pytest.raises(BadMessageId):
        decode_uniq_key_time("nonsense", 0)


def test_threads_never_get_the_same_key() -> None:
    keys = UniqKeys("10.1.2.3", 1, ManualClock())
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: [keys.next() for _ in range(2000)], range(8)))
    finally:
        sys.setswitchinterval(switching)
    assert len({key for some in made for key in some}) == 16_000


def test_a_reset_generator_makes_other_keys() -> None:
    keys = UniqKeys("10.1.2.3", 1, ManualClock())
    first = keys.next()
    keys.reset(pid=1)
    assert keys.next()[:20] != first[:20]
