"""Bodies that are written piece by piece."""

import pytest

from rocketeer.errors import FrameTooLarge
from rocketeer.protocol.bodies.long_body import LongBody
from rocketeer.protocol.frame import FILLED_BYTES, FRAME_BYTES_MAX
from rocketeer.steps import Steps, finish


@pytest.mark.parametrize(("count", "size"), [(0, 1), (1, 1), (255, 3), (256, 3), (257, 3), (10_000, 300)])
def test_a_body_is_its_pieces_in_their_order(count: int, size: int) -> None:
    pieces = [b"%0*d" % (size, number % 10**size) for number in range(count)]
    body = LongBody()
    for piece in pieces:
        body.write(piece)
    assert body.whole() == b"".join(pieces)


def test_a_large_body_is_joined_in_many_steps() -> None:
    body = LongBody()
    for _ in range(FILLED_BYTES // 100):
        body.write(bytes(300))
    assert sum(1 for _ in body.joining()) > 10


def test_what_is_larger_than_a_frame_is_given_up_as_soon_as_it_is() -> None:
    body = LongBody()
    for _ in range(FRAME_BYTES_MAX // 1024):
        body.write(bytes(1024))
    with pytest.raises(FrameTooLarge):
        finish(iter_writes(body, 1000))


def iter_writes(body: LongBody, count: int) -> Steps[None]:
    for _ in range(count):
        body.write(bytes(1024))
        yield
