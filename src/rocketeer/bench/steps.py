"""The load generator's inner steps: compiled where the broker's are, so that it is not the one who is waited for."""

from typing import TYPE_CHECKING

from rocketeer.bench.steps_plain import NUMBER_WIDTH, STAMP_WIDTH, Flight, Frames
from rocketeer.compiled import COMPILED

__all__ = ["NUMBER_WIDTH", "STAMP_WIDTH", "Flight", "Frames"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.bench._steps import Flight, Frames
