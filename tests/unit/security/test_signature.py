"""Signatures, bit for bit as Java makes them, and requests that are taken once."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rocketeer.security.replay import NUMBERS, ReplayGuard
from rocketeer.security.signature import (
    NONCE,
    SIGNATURE,
    SIGNED_AT,
    Signer,
    checking_signature,
    sign,
    signed_content,
)
from rocketeer.steps import finish

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
SECRETS = {"RocketMQ": "12345678", "rocketmq2": "12345678"}


def test_the_recorded_vectors() -> None:
    golden = json.loads((GOLDEN / "golden.json").read_text())
    assert sign(b"abc", "12345678") == golden["AclUtils.calSignature('abc','secret')"]
    fields = golden["ACL signed GET_ROUTEINFO extFields (ak=rocketmq2, sk=12345678)"]
    assert sign(signed_content(fields, b""), "12345678") == fields[SIGNATURE]


def test_every_recorded_request_of_java_is_signed_and_a_changed_one_is_not() -> None:
    checked = 0
    for name in ("acl_signed", "acl_super_admin", "acl_config"):
        for line in (GOLDEN / "wire" / f"{name}.jsonl").read_text().splitlines():
            frame = json.loads(line)
            fields = frame["header"].get("extFields", {})
            if frame["dir"] != "request" or SIGNATURE not in fields:
                continue
            content = signed_content(fields, bytes.fromhex(frame["body_hex"]))
            assert finish(checking_signature(content, SECRETS[fields["AccessKey"]], fields[SIGNATURE])), (
                frame["header"]
            )
            assert not finish(
                checking_signature(content + b"x", SECRETS[fields["AccessKey"]], fields[SIGNATURE])
            )
            checked += 1
    assert checked > 30


def test_our_requests_carry_time_and_nonce_in_what_is_signed() -> None:
    signer = Signer("RocketMQ", "12345678", lambda: 1_700_000_000_000)
    first, second = signer.signed({"topic": "T"}, b"body"), signer.signed({"topic": "T"}, b"body")
    assert first[NONCE] != second[NONCE]
    for signed in (first, second):
        assert finish(checking_signature(signed_content(signed, b"body"), "12345678", signed[SIGNATURE]))
        moved = {**signed, SIGNED_AT: "1700000000001"}
        assert not finish(checking_signature(signed_content(moved, b"body"), "12345678", signed[SIGNATURE]))
    assert "12345678" not in repr(signer)


def test_a_request_is_taken_once() -> None:
    guard = ReplayGuard()
    assert guard.refusal("1000", "s.5", 1000) is None
    assert "came before" in (guard.refusal("1000", "s.5", 1000) or "")
    assert guard.refusal("1000", "s.4", 1000) is None, "requests may overtake each other"
    assert guard.refusal("1000", "other.5", 1000) is None
    assert guard.refusal("1000", f"s.{5 + NUMBERS}", 1000) is None
    assert guard.refusal("1000", "s.5", 1000) is not None, "too far below: nobody knows any more"


def test_what_was_signed_long_ago_or_in_the_future_is_refused() -> None:
    guard = ReplayGuard(window_ms=1000)
    assert "away from the server's clock" in (guard.refusal("1000", "s.1", 2001) or "")
    assert "away from the server's clock" in (guard.refusal("5000", "s.1", 2001) or "")


def test_garbage_is_refused_and_remembers_nothing() -> None:
    guard = ReplayGuard()
    for signed_at, nonce in [
        ("", "s.1"),
        ("-5", "s.1"),
        ("9" * 400, "s.1"),
        ("1000", "s"),
        ("1000", ".1"),
        ("1000", "s.-1"),
        ("1000", "s.٣"),
        ("1000", "s" * 65 + ".1"),
        ("1000", "s." + "9" * 100),
    ]:
        assert guard.refusal(signed_at, nonce, 1000) is not None
    assert not guard._sessions


def test_an_account_with_too_many_clients_gets_no_more_until_old_ones_are_gone() -> None:
    guard = ReplayGuard(window_ms=1000, sessions_max=2)
    assert guard.refusal("1000", "a.1", 1000) is None
    assert guard.refusal("1000", "b.1", 1000) is None
    assert "clients already" in (guard.refusal("1000", "c.1", 1000) or "")
    assert guard.refusal("9000", "c.1", 9000) is None


@given(st.lists(st.integers(0, 3 * NUMBERS), max_size=200))
def test_no_number_is_taken_twice_in_whatever_order_they_come(numbers: list[int]) -> None:
    guard = ReplayGuard()
    taken = [number for number in numbers if guard.refusal("1000", f"s.{number}", 1000) is None]
    assert len(taken) == len(set(taken))
    in_reach = [
        number
        for at, number in enumerate(numbers)
        if number not in numbers[:at] and number > max(numbers[:at], default=0) - NUMBERS
    ]
    assert set(in_reach) <= set(taken)
