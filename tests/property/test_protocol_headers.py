"""Laws of typed headers: every one survives its texts and its raw JSON."""

from contextlib import suppress

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.errors import BadHeader
from rocketeer.protocol.headers.base import Header, decode_header, encode_header
from support.header_kinds import header_kinds
from support.raw_headers import decode_raw

KINDS = header_kinds()
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
likely = st.sampled_from(
    ["", "0", "1", "-1", "+7", "007", "true", "False", "null", "1.0", "9" * 12, "9" * 30]
)


def _values(annotation: object) -> st.SearchStrategy[object]:
    kind = msgspec.inspect.type_info(annotation)
    if isinstance(kind, msgspec.inspect.UnionType):
        return st.one_of(*(_values_of(option) for option in kind.types))
    return _values_of(kind)


def _values_of(kind: msgspec.inspect.Type) -> st.SearchStrategy[object]:
    if isinstance(kind, msgspec.inspect.IntType):
        return st.integers(kind.ge, kind.le)
    if isinstance(kind, msgspec.inspect.BoolType):
        return st.booleans()
    if isinstance(kind, msgspec.inspect.NoneType):
        return st.none()
    return texts


@st.composite
def any_header(draw: st.DrawFn) -> Header:
    kind = draw(st.sampled_from(KINDS))
    return kind(**{field.name: draw(_values(field.type)) for field in msgspec.structs.fields(kind)})


@settings(max_examples=300, deadline=None)
@given(any_header())
def test_a_header_survives_its_texts_and_its_raw_json(header: Header) -> None:
    ext = encode_header(header)
    assert decode_header(type(header), ext) == header
    assert decode_raw(type(header), msgspec.json.encode(ext)) == header


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(KINDS), st.data())
def test_texts_and_raw_json_agree_on_any_values(kind: type[Header], data: st.DataObject) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    ext = data.draw(st.dictionaries(st.sampled_from(names), likely | texts))
    raw = msgspec.json.encode(ext)
    expected: object = None
    with suppress(BadHeader):
        expected = decode_header(kind, ext)
    got: object = None
    with suppress(BadHeader):
        got = decode_raw(kind, raw)
    assert got == expected


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(KINDS), st.binary(max_size=60))
def test_any_bytes_give_a_header_or_bad_header(kind: type[Header], raw: bytes) -> None:
    with suppress(BadHeader):
        decode_raw(kind, raw)
