"""Packed bodies open to what was packed; broken ones and bombs are typed errors."""

import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard

from rocketeer.errors import BodyTooLarge
from rocketeer.record.compression import BadCompression, compress, decompress
from rocketeer.record.flags import COMPRESSED, COMPRESSION_MASK, Compression, tx_state, with_tx_state

KINDS = list(Compression)


def streamed_zstd(body: bytes) -> bytes:
    """As Java's stream writes it: the head does not tell the size."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"", b"x", b"hello " * 5000])
def test_what_was_packed_comes_out(kind: Compression, body: bytes) -> None:
    assert decompress(compress(body, kind), kind.sys_flag) == body


def test_a_body_that_is_not_packed_stays_as_it_is() -> None:
    assert decompress(b"plain", COMPRESSION_MASK) == b"plain"


def test_flags_of_old_senders_mean_zlib() -> None:
    assert decompress(compress(b"x"), COMPRESSED) == b"x"


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_is_exact(kind: Compression) -> None:
    packed = compress(bytes(1000), kind)
    assert decompress(packed, kind.sys_flag, limit_bytes=1000) == bytes(1000)
    with pytest.raises(BodyTooLarge, match="999"):
        decompress(packed, kind.sys_flag, limit_bytes=999)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_refused(kind: Compression) -> None:
    with pytest.raises(BodyTooLarge):
        decompress(compress(bytes(8 << 20), kind), kind.sys_flag, limit_bytes=1 << 20)


def test_zstd_of_untold_size_is_bounded_too() -> None:
    packed = streamed_zstd(bytes(1000))
    flag = Compression.ZSTD.sys_flag
    assert decompress(packed, flag, limit_bytes=1000) == bytes(1000)
    with pytest.raises(BodyTooLarge):
        decompress(packed, flag, limit_bytes=999)
    with pytest.raises(BadCompression, match="cut short"):
        decompress(packed[:-1], flag)


@pytest.mark.parametrize("kind", KINDS)
def test_broken_bytes_are_a_typed_error(kind: Compression) -> None:
    packed = compress(b"hello " * 500, kind)
    for broken in (b"", b"junk", b"junk" * 100, packed[: len(packed) // 2], packed[:-1], packed[1:]):
        with pytest.raises(BadCompression):
            decompress(broken, kind.sys_flag)


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(BadCompression, match="type 5 is unknown"):
        decompress(b"x", COMPRESSED | 0x500)


def test_lz4_frames_are_such_as_javas_reader_takes() -> None:
    info = lz4.frame.get_frame_info(compress(b"x" * 100, Compression.LZ4))
    assert not info["block_linked"]
    assert info["content_size"] == 0


def test_the_flag_of_a_zlib_body_is_the_recorded_one() -> None:
    assert Compression.ZLIB.sys_flag == 0x301


def test_transaction_bits_are_replaced_alone() -> None:
    assert with_tx_state(0x301 | 0x4, 0x8) == 0x309
    assert tx_state(0x309) == 0x8
