"""A large table is put together in steps, and is the same text as at once."""

import random

import pytest

from rocketeer.broker.table_text import STEP_PIECES, TableText, joining_body
from rocketeer.errors import FrameTooLarge
from rocketeer.protocol.frame import FRAME_BYTES_MAX
from rocketeer.steps import finish


@pytest.mark.parametrize("count", [0, 1, 2, STEP_PIECES - 1, STEP_PIECES, STEP_PIECES + 1, 3 * STEP_PIECES])
@pytest.mark.parametrize("size", [1, 300, 70_000])
def test_in_steps_it_is_the_same_text(count: int, size: int) -> None:
    count = min(count, 4_000_000 // size)
    text = TableText(b"{", [random.randbytes(size) for _ in range(count)], b",\n", b"}")
    assert b"".join(finish(text.joining())) == text.whole()
    assert finish(joining_body(text)) == text.whole()


def test_pieces_that_end_with_what_is_between_are_kept_whole() -> None:
    text = TableText(b"[", [b"," * 70_000, b"a,"] * 3 + [b"," * 70_000], b",", b"]")
    assert b"".join(finish(text.joining())) == text.whole()


def test_what_no_frame_can_carry_is_given_up_unless_it_is_to_be_packed() -> None:
    text = TableText(b"[", [bytes(1 << 20)] * (FRAME_BYTES_MAX // (1 << 20) + 1), b",", b"]")
    with pytest.raises(FrameTooLarge):
        finish(joining_body(text))
    assert finish(joining_body(text, any_size=True)) == text.whole()
