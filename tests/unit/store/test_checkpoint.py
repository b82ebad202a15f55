"""Laws of the checkpoint: RocketMQ's part stays as it is; ours counts only if it speaks for this store."""

import struct
from pathlib import Path

import pytest

from rocketeer.store.checkpoint import (
    CHECKPOINT_BYTES,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    read_checkpoint,
)

FULL = Checkpoint(1_700_000_009_000, 1_700_000_008_000, 1_700_000_001_000, 4711, 4000)


def test_a_checkpoint_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    for checkpoint in (FULL, Checkpoint(), Checkpoint(5, 6, 7), Checkpoint(5, 6, 7, 0, None)):
        path.write_bytes(encode_checkpoint(checkpoint))
        assert read_checkpoint(path) == checkpoint
        assert path.stat().st_size == CHECKPOINT_BYTES


def test_the_first_24_bytes_are_rocketmqs() -> None:
    assert struct.unpack(">qqq", encode_checkpoint(FULL)[:24]) == (
        FULL.physic_ms,
        FULL.logics_ms,
        FULL.index_ms,
    )


def test_a_missing_or_short_file_says_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "none") == Checkpoint()
    assert decode_checkpoint(b"") == Checkpoint()
    assert decode_checkpoint(struct.pack(">qqq", 1, 2, 3)) == Checkpoint(1, 2, 3)
    assert read_checkpoint(tmp_path) == Checkpoint()  # a folder


def test_a_java_broker_that_wrote_in_between_takes_our_offsets_away() -> None:
    raw = bytearray(encode_checkpoint(FULL))
    struct.pack_into(">q", raw, 0, FULL.physic_ms + 1)
    assert decode_checkpoint(bytes(raw)) == Checkpoint(FULL.physic_ms + 1, FULL.logics_ms, FULL.index_ms)


@pytest.mark.parametrize("at", range(64, 88))
def test_any_broken_byte_of_our_part_takes_our_offsets_away(at: int) -> None:
    raw = bytearray(encode_checkpoint(FULL))
    raw[at] ^= 0x40
    assert decode_checkpoint(bytes(raw)) == Checkpoint(FULL.physic_ms, FULL.logics_ms, FULL.index_ms)


def test_offsets_ahead_of_the_log_are_dropped() -> None:
    assert FULL.within(4711) == FULL
    assert FULL.within(4710) == Checkpoint(FULL.physic_ms, FULL.logics_ms, FULL.index_ms)


def test_recovery_starts_three_seconds_before_the_oldest_time() -> None:
    assert FULL.recover_from_ms == 1_700_000_005_000
    assert FULL.recover_index_from_ms == 1_700_000_001_000
    assert Checkpoint(2_000, 1_000, 0).recover_from_ms == 0
