"""White lists in every form that RocketMQ's files have."""

import pytest

from rocketeer.errors import ConfigError
from rocketeer.security.addresses import parse_white_list, plain_ip


@pytest.mark.parametrize(
    ("pattern", "white", "others"),
    [
        ("*", ["1.2.3.4", "::1"], []),
        ("*.*.*.*", ["1.2.3.4"], []),
        ("10.0.0.1", ["10.0.0.1"], ["10.0.0.2", "::1"]),
        ("192.168.*", ["192.168.0.1", "192.168.255.255"], ["192.169.0.1"]),
        ("192.168.0.*", ["192.168.0.7"], ["192.168.1.7"]),
        ("10.0.*.7", ["10.0.200.7"], ["10.0.200.8"]),
        ("10.0.0.1-20", ["10.0.0.1", "10.0.0.20"], ["10.0.0.0", "10.0.0.21"]),
        ("10.0.1-2.*", ["10.0.1.9", "10.0.2.9"], ["10.0.3.9"]),
        ("10.0.0.{1,7}", ["10.0.0.1", "10.0.0.7"], ["10.0.0.2"]),
        ("10.0.0.{1,7},10.1.0.3", ["10.0.0.7", "10.1.0.3"], ["10.1.0.1"]),
        ("10.0.0.1, 10.0.0.2", ["10.0.0.1", "10.0.0.2"], ["10.0.0.3"]),
        ("::1", ["::1", "0:0:0:0:0:0:0:1"], ["::2", "0.0.0.1"]),
        ("1050::5:600:300c:326b", ["1050:0000:0000:0000:0005:0600:300c:326b"], ["1050::5:600:300c:326c"]),
        ("fe80::{1,a}", ["fe80::1", "fe80::a"], ["fe80::2"]),
        ("fe80::1-ff", ["fe80::80"], ["fe80::100"]),
        ("fe80::*", ["fe80::1", "fe80:1::1"], ["fe81::1"]),
        ("1050:0:*", ["1050:0:1:2:3:4:5:6"], ["1050:1:1:2:3:4:5:6"]),
        ("", [], ["1.2.3.4", "::1"]),
    ],
)
def test_a_pattern_means_its_addresses_and_no_others(
    pattern: str, white: list[str], others: list[str]
) -> None:
    test = parse_white_list(pattern)
    assert [address for address in white if not test(address)] == []
    assert [address for address in others if test(address)] == []
    assert not test("not an address") or pattern.startswith("*")


@pytest.mark.parametrize(
    "pattern",
    [
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "1.2.3.x",
        "1.2.3.9-1",
        "1:2",
        "1::2::3",
        "12345::",
        "1.2.3.{",
        "-1.2.3.4",
        "1.2.3.+4",
    ],
)
def test_what_is_no_pattern_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(ConfigError, match="address pattern"):
        parse_white_list(pattern)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("10.0.0.1:5000", "10.0.0.1"),
        ("[::1]:5000", "::1"),
        ("[::ffff:10.0.0.1]:5", "10.0.0.1"),
        ("[fe80::1%eth0]:5", "fe80::1"),
    ],
)
def test_the_address_of_a_peer_is_the_one_its_packets_come_from(remote: str, address: str) -> None:
    assert plain_ip(remote) == address
