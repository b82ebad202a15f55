"""Answers those who wait for one thing in their order, some in a turn of the loop: each may get a reply.

Whoever keeps the queue says how the next one is answered; one whose answer fails keeps it from nobody else.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

log = logging.getLogger(__name__)

ANSWERS_AT_ONCE: Final = 64

Schedule: TypeAlias = Callable[[Callable[[], None]], object]
"""Runs something when others have had their turn."""


def at_once(run: Callable[[], None]) -> None:
    """Run it immediately: the schedule of a caller that has no loop."""
    run()


class AnswersInOrder:
    """Answers waiters one after the other, in turns of the loop. Belongs to the loop thread."""

    def __init__(self, answer_next: Callable[[], bool], schedule: Schedule = at_once) -> None:
        """`answer_next` takes the first of the queue out of it and then answers it; False when nobody is due."""
        self._answer_next = answer_next
        self._schedule = schedule
        self.is_answering = False
        """Whether some who may be answered wait for the next turn: who comes now waits behind them."""

    def go_on(self) -> None:
        """Answer those who are due, unless that is going on already."""
        if not self.is_answering:
            self.is_answering = True
            self._answer_some()

    def finish(self) -> None:
        """Answer all who are due immediately."""
        while self._answered_one():
            pass

    def _answer_some(self) -> None:
        for _ in range(ANSWERS_AT_ONCE):
            if not self._answered_one():
                self.is_answering = False
                return
        self._schedule(self._answer_some)

    def _answered_one(self) -> bool:
        try:
            return self._answer_next()
        except Exception:  # of our own bugs those who wait behind it must not have to wait for ever
            log.exception("answer failed")
            return True
