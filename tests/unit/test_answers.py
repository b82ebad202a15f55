"""Answers are given in order, some a turn, and one that fails keeps those behind it from nothing."""

from collections import deque
from collections.abc import Callable

import pytest

from rocketeer.answers import ANSWERS_AT_ONCE, AnswersInOrder


class Queue:
    """Numbers that wait for `limit` to reach them; some of them cannot be answered."""

    def __init__(self, *failing: int) -> None:
        self.later: list[Callable[[], None]] = []
        self.waiting = deque(range(1_000))
        self.failing = failing
        self.limit = 0
        self.told: list[int] = []
        self.answers = AnswersInOrder(self._answer_next, self.later.append)

    def _answer_next(self) -> bool:
        if not self.waiting or self.waiting[0] >= self.limit:
            return False
        number = self.waiting.popleft()
        if number in self.failing:
            raise ValueError(f"no answer to {number}")
        self.told.append(number)
        return True

    def turn(self) -> None:
        (run,), self.later[:] = self.later.copy(), []
        run()


def test_they_are_answered_in_order_and_some_a_turn() -> None:
    queue = Queue()
    queue.limit = 150
    queue.answers.go_on()
    assert len(queue.told) == ANSWERS_AT_ONCE
    assert queue.answers.is_answering
    queue.limit = 300
    queue.answers.go_on()
    assert len(queue.told) == ANSWERS_AT_ONCE, "it is under way"
    while queue.later:
        before = len(queue.told)
        queue.turn()
        assert len(queue.told) - before <= ANSWERS_AT_ONCE
    assert queue.told == list(range(300))
    assert not queue.answers.is_answering
    queue.limit = 310
    queue.answers.go_on()
    assert queue.told == list(range(310))


@pytest.mark.parametrize("failing", [0, ANSWERS_AT_ONCE - 1, ANSWERS_AT_ONCE, 299])
def test_an_answer_that_fails_is_logged_and_the_others_are_given(
    failing: int, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(failing)
    queue.limit = 300
    queue.answers.go_on()
    while queue.later:
        queue.turn()
    assert queue.told == [number for number in range(300) if number != failing]
    assert f"no answer to {failing}" in caplog.text
    queue.limit = 400
    queue.answers.finish()
    assert queue.told[-1] == 399
    assert not queue.later


def test_all_that_may_be_answered_are_answered_at_the_end() -> None:
    queue = Queue(7, 500)
    queue.limit = 900
    queue.answers.finish()
    assert queue.told == [number for number in range(900) if number not in (7, 500)]
