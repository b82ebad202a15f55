"""Where accounts are asked for: sends taken in compiled runs pass and fail exactly as on the general path."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.compiled import COMPILED
from rocketeer.errors import StoreRefused
from rocketeer.protocol.command import Command, decode_frame
from rocketeer.protocol.frame import JSON, FrameSplitter, pack_frame
from rocketeer.security.access import AccessControl
from rocketeer.security.accounts import Accounts, parse_accounts
from rocketeer.security.rules import BROKER_RULES, NothingStored
from rocketeer.security.signature import NONCE, SIGNATURE, SIGNED_AT, sign, signed_content
from support.sending import Sending, header, requests, same
from support.stores import memory_folder

pytestmark = pytest.mark.skipif(not COMPILED, reason="the compiled modules are not in use")
NOW_MS = 1_700_000_000_000
ACCOUNTS = {
    "accounts": [
        {"accessKey": "sender123", "secretKey": "secret-one", "topicPerms": ["Known=PUB"]},
        {
            "accessKey": "rotating1",
            "secretKey": "old-secret",
            "secondarySecretKey": "new-secret",
            "admin": True,
        },
        {"accessKey": "long-secret", "secretKey": "s" * 100, "defaultTopicPerm": "PUB"},
        {"accessKey": "reader123", "secretKey": "secret-one", "defaultTopicPerm": "SUB"},
        {"accessKey": "nearby123", "secretKey": "secret-one", "whiteRemoteAddress": "127.0.0.*"},
    ]
}
GOOD = [
    ("sender123", "secret-one"),
    ("rotating1", "old-secret"),
    ("rotating1", "new-secret"),
    ("long-secret", "s" * 100),
]
BAD = [
    ("sender123", "secret-two"),
    ("stranger1", "secret-one"),
    ("reader123", "secret-one"),
    ("nearby123", "whatever"),
]


def control(*, require_nonce: bool = False, white: str = "") -> AccessControl:
    access = AccessControl(BROKER_RULES, NothingStored(), now_ms=lambda: NOW_MS, require_nonce=require_nonce)
    access.accounts = parse_accounts({**ACCOUNTS, "globalWhiteRemoteAddresses": [white] if white else []})
    return access


def signed(frame: bytes, key: str, secret: str, *, nonce: str | None = None, **more: str) -> bytes:
    """The same request with a signature, as Java's clients or (with a nonce) ours make it."""
    (split,) = FrameSplitter().feed(frame)
    command = decode_frame(*split)
    ext = {**command.ext, "AccessKey": key, **more}
    if nonce is not None:
        ext |= {SIGNED_AT: str(NOW_MS), NONCE: nonce}
    ext[SIGNATURE] = sign(signed_content(ext, command.body), secret)
    return written(command, ext)


def written(command: Command, ext: dict[str, Any]) -> bytes:
    return pack_frame(JSON, header(command.code, ext, opaque=command.opaque, flag=command.flag), command.body)


@st.composite
def signed_requests(draw: st.DrawFn) -> bytes:
    frame = draw(requests())
    kind = draw(st.sampled_from(["good", "good", "good", "good", "bad", "none", "changed", "twice", "odd"]))
    if kind == "none":
        return frame
    key, secret = draw(st.sampled_from(BAD if kind == "bad" else GOOD))
    nonce = draw(st.one_of(st.none(), st.builds("s{}.{}".format, st.integers(0, 1), st.integers(0, 9))))
    whole = signed(frame, key, secret, nonce=nonce)
    if kind == "changed":
        (split,) = FrameSplitter().feed(whole)
        command = decode_frame(*split)
        command.body += b"x"
        return written(command, command.ext)
    if kind == "odd":
        return draw(odd(frame, key, secret))
    return whole + whole if kind == "twice" else whole


def odd(frame: bytes, key: str, secret: str) -> st.SearchStrategy[bytes]:
    """Headers that are valid, and not what a client writes."""
    whole = signed(frame, key, secret)
    (split,) = FrameSplitter().feed(whole)
    command = decode_frame(*split)
    text = header(command.code, command.ext, opaque=command.opaque, flag=command.flag)

    def framed(changed: bytes) -> bytes:
        return pack_frame(JSON, changed, command.body)

    signature = command.ext[SIGNATURE].encode()
    return st.sampled_from(
        [
            framed(text.replace(b'"extFields":{', b'"extFields":{"AccessKey":"sender123",')),  # twice
            framed(text.replace(b'"extFields":{', b'"extFields":{"z":5,')),  # not a text
            framed(text.replace(b'"extFields":{', b'"extFields":{"z":null,')),
            framed(text.replace(signature, signature[:-1])),
            framed(text.replace(signature, signature * 3000)),
            framed(text.replace(signature, b"")),
            signed(frame, key, secret, _UNIQUE_KEY_QUERY="true", zz="after", A="before"),
            signed(frame, key, secret, **{f"x{number}": "y" for number in range(40)}),
            signed(frame, key, secret, nonce="no-number"),
            signed(frame, key, secret, nonce="s0." + "9" * 30),
        ]
    )


@pytest.mark.parametrize("settings_of", [{}, {"require_nonce": True}, {"white": "127.0.0.1"}])
@settings(deadline=None, max_examples=120)
@given(data=st.lists(signed_requests(), max_size=8).map(b"".join))
def test_a_run_lets_pass_what_one_by_one_would_have_passed(settings_of: dict[str, Any], data: bytes) -> None:
    with memory_folder() as folder:
        fast = Sending(Path(folder) / "a", [], access=control(**settings_of))
        general = Sending(Path(folder) / "b", [], access=control(**settings_of))
        fast.serve_fast(data)
        general.serve_general(data)
        same(fast, general)


def send(topic: str = "Known", opaque: int = 7) -> bytes:
    ext = {
        "a": "group", "b": topic, "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
        "i": "KEYS\x01k1\x02TAGS\x01t\x02", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    return pack_frame(JSON, header(310, ext, opaque=opaque), b"body")


@pytest.mark.parametrize("nonces", [False, True])
def test_what_good_accounts_sign_is_taken_whole(tmp_path: Path, nonces: bool) -> None:
    data = b"".join(
        signed(send(opaque=number), *GOOD[number % len(GOOD)], nonce=f"s.{number}" if nonces else None)
        for number in range(20)
    )
    sending = Sending(tmp_path, [], access=control())
    assert sending.serve_fast(data) == len(data)
    assert [answer.code for answer in sending.peer.commands()] == [0] * 20
    sending.store.close()


@pytest.mark.parametrize(("key", "secret"), BAD[:3])
def test_what_is_not_let_pass_is_left_to_the_general_path_and_stores_nothing(
    tmp_path: Path, key: str, secret: str
) -> None:
    sending = Sending(tmp_path, [], access=control())
    assert sending.serve_fast(signed(send(), key, secret)) == 0
    (answer,) = sending.peer.commands()
    assert "AclException" in (answer.remark or "")
    assert sending.stored()["log"] == b""
    sending.store.close()


def test_an_unsigned_request_behind_signed_ones_of_the_same_connection_is_refused(tmp_path: Path) -> None:
    sending = Sending(tmp_path, [], access=control())
    good = signed(send(), *GOOD[0])
    assert sending.serve_fast(good + send() + good) == len(good)
    assert [answer.code for answer in sending.peer.commands()] == [0, 1, 0]
    sending.store.close()


def test_changed_accounts_hold_for_the_next_request(tmp_path: Path) -> None:
    access = control()
    sending = Sending(tmp_path, [], access=access)
    data = signed(send(), *GOOD[0])
    assert sending.serve_fast(data) == len(data)
    access.accounts = Accounts()
    assert sending.serve_fast(data) == 0
    assert "No acl config" in (sending.peer.commands()[-1].remark or "")
    sending.store.close()


def test_sends_that_a_full_store_refuses_are_no_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending = Sending(tmp_path, [], access=control())
    data = signed(send(), *GOOD[0], nonce="s.1")

    def refuse(size: int) -> int:
        raise StoreRefused(14, "the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(type(sending.store.log), "make_room", lambda self, size: refuse(size))
        assert sending.serve_fast(data) == len(data)
    (answer,) = sending.peer.commands()
    assert "came before" not in (answer.remark or "")
    assert json.dumps(answer.ext) is not None
    sending.store.close()


def test_who_guessed_wrong_before_takes_the_general_path_until_it_is_right(tmp_path: Path) -> None:
    access = control()
    sending = Sending(tmp_path, [], access=access)
    good = signed(send(), *GOOD[0])
    sending.serve_fast(signed(send(), "sender123", "secret-two"))
    assert sending.serve_fast(good) == 0, "the general path forgives"
    assert sending.serve_fast(good) == len(good)
    sending.store.close()
