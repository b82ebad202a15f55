"""The compiled reader of send headers agrees with the typed decoder of the general path, or leaves the header to it."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.compiled import COMPILED
from rocketeer.protocol.frame import JSON, pack_frame
from support import sending
from support.sending import Sending, same
from support.stores import memory_folder

pytestmark = pytest.mark.skipif(not COMPILED, reason="the compiled modules are not in use")

header = functools.partial(sending.header, 310)
PLAIN = {
    "a": "group", "b": "Known", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
    "i": "KEYS\x01k\x02UNIQ_KEY\x01u\x02WAIT\x01true\x02TAGS\x01t\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip


def served_alike(folder: Path, raw: bytes) -> int:
    """How much of it the engine served; if any, what it stored and answered is what the general path does."""
    data = pack_frame(JSON, raw, b"body")
    fast = Sending(folder / "a", [])
    assert fast.plain_sends is not None
    served = fast.plain_sends.serve_front(data, fast.peer)  # type: ignore[arg-type]
    if not served:
        fast.store.close()
        return 0
    fast.end_turn()
    general = Sending(folder / "b", [])
    general.serve_general(data)
    same(fast, general)
    return served == len(data)


def test_what_java_sends_is_read(tmp_path: Path) -> None:
    assert served_alike(tmp_path, header(PLAIN))


def test_bare_numbers_and_white_space_are_read_too(tmp_path: Path) -> None:
    ext = PLAIN | {"d": 4, "e": 2, "f": -13, "g": 5, "h": 9, "l": 16, "m": False}
    raw = json.dumps({"code": 310, "flag": 2, "opaque": -3, "extFields": ext}, separators=(",", ":"))
    assert served_alike(tmp_path, raw.replace(',"', ' ,\n "').encode())


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"{}", b"[]", b'{"code":310}', header({}), header({k: v for k, v in PLAIN.items() if k != "b"}),
        header(PLAIN | {"m": "true"}), header(PLAIN | {"e": "x"}), header(PLAIN | {"e": "99999999999"}),
        header(PLAIN | {"i": "DELAY\x013"}), header(PLAIN | {"i": {"a": "b"}}), header(PLAIN, code=311),
        header(PLAIN) + b"x", header(PLAIN)[:-1], header(PLAIN | {"b": "größe"}), header(PLAIN, opaque=1 << 40),
        b'{"code":310,"extFields":' + b"{" * 1000, header(PLAIN).replace(b"Known", b"Kno\xffwn"),
        header(PLAIN).replace(b'"flag"', b'"fl\\u0061g"'), header(PLAIN).replace(b"{", b"{{", 1),
    ],
)  # fmt: skip
def test_everything_else_is_left_to_the_general_decoder(raw: bytes, tmp_path: Path) -> None:
    assert not served_alike(tmp_path, raw)


values = st.one_of(
    st.text(max_size=8), st.integers(-(2**40), 2**40), st.sampled_from(["true", "false", "0", "310", None])
)


@settings(deadline=None, max_examples=200)
@given(
    ext=st.dictionaries(st.sampled_from("adefghijklmno"), values, max_size=6),
    outer=st.dictionaries(st.sampled_from(["flag", "opaque", "remark", "x"]), values, max_size=2),
    cut=st.integers(0, 400),
    drop=st.booleans(),
)
def test_it_never_says_anything_the_decoder_does_not(ext: Any, outer: Any, cut: int, drop: bool) -> None:
    raw = header(PLAIN | ext, **outer)
    if drop and cut < len(raw):
        raw = raw[:cut] + raw[cut + 1 :]
    with memory_folder() as folder:
        served_alike(Path(folder), raw)
