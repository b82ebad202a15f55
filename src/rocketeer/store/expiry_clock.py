"""The time by which things grow old: the wall clock, as long as it goes as fast as time passes.

A clock that somebody sets three days ahead must not delete three days of messages. So a jump ahead is not believed at
once, it has to be confirmed by time that really passes (the monotonic clock): until the wall clock is reached again,
things age twice as fast as they live. Nothing goes before it was seen for half its time.

    wall clock     ------/            /--- (jump)
                        /         ....
    believed       ----/--........            2 s a second until it is there

At start nobody can tell a long stop from a jump: what was believed last (the checkpoint has it), or else the newest
message's store time, is where it goes on. A clock that is set back is followed.
"""

import logging
from typing import Final

from rocketeer.clock import Clock

log = logging.getLogger(__name__)

JUMP_MS: Final = 600_000
"""How far ahead the clock may be set without a question."""
CATCH_UP: Final = 2


class ExpiryClock:
    """A wall clock for expiry that ignores jumps forward. Belongs to the loop thread."""

    def __init__(self, clock: Clock, believed_ms: int) -> None:
        """`believed_ms` is what is known of the time before this start; 0 for nothing."""
        self._clock = clock
        self._read_s = clock.monotonic_s()
        self._now_ms = float(min(believed_ms or clock.now_ms(), clock.now_ms()))
        self._doubts = False

    def now_ms(self) -> int:
        wall_ms, read_s = self._clock.now_ms(), self._clock.monotonic_s()
        passed_ms = (read_s - self._read_s) * 1000
        self._read_s = read_s
        ahead_ms = wall_ms - (self._now_ms + passed_ms)
        if ahead_ms <= JUMP_MS:
            self._now_ms, self._doubts = wall_ms, False
        else:
            self._now_ms += CATCH_UP * passed_ms
            if not self._doubts:
                self._doubts = True
                log.error("the clock is ahead of the time that passed ahead_s=%d: nothing expires by it at once",
                          ahead_ms // 1000)  # fmt: skip
        return int(self._now_ms)
