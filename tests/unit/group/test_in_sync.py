"""The leader's count of who has what."""

from collections.abc import Callable
from functools import partial

from rocketeer.answers import ANSWERS_AT_ONCE
from rocketeer.group.in_sync import ConfirmOutcome, InSyncCount


def count_of(*members: int, min_in_sync: int = 2) -> InSyncCount:
    return InSyncCount(1, members, min_in_sync=min_in_sync, confirmed=0)


def test_a_message_is_confirmed_when_every_member_of_the_set_has_it() -> None:
    count, told = count_of(1, 2, 3), list[ConfirmOutcome]()
    count.wait(100, told.append)
    count.note_progress(1, 100)
    count.note_progress(2, 150)
    assert (told, count.confirmed) == ([], 0)
    count.note_progress(3, 99)
    assert (told, count.confirmed) == ([], 99)
    count.note_progress(3, 100)
    assert (told, count.confirmed) == ([ConfirmOutcome.CONFIRMED], 100)


def test_while_the_set_changes_both_sets_count() -> None:
    count, told = count_of(1, 2, 3), list[ConfirmOutcome]()
    for member in (1, 2, 3):
        count.note_progress(member, 100)
    count.begin_change({1, 2})
    count.wait(200, told.append)
    count.note_progress(1, 200)
    count.note_progress(2, 200)
    assert not told  # the transaction may have failed: 3 may be in the set yet
    count.settle_change({1, 2})
    assert told == [ConfirmOutcome.CONFIRMED]
    count.begin_change({1, 2, 3})
    count.wait(300, told.append)
    count.note_progress(1, 300)
    count.note_progress(2, 300)
    assert len(told) == 1  # 3 may be in the set already
    count.note_progress(3, 300)
    assert len(told) == 2


def test_with_too_few_nothing_is_confirmed() -> None:
    count, told = count_of(1, 2), list[ConfirmOutcome]()
    count.wait(10, told.append)
    count.begin_change({1})
    assert not count.is_enough
    count.settle_change({1})
    count.note_progress(1, 10)
    assert not told
    assert not count.is_enough


def test_what_a_lost_member_had_counts_no_longer_until_it_says_so_again() -> None:
    count = count_of(1, 2)
    count.note_progress(1, 100)
    count.note_progress(2, 50)
    count.forget_member(2)
    count.note_progress(1, 200)
    assert count.confirmed == 50
    count.note_progress(2, 120)
    assert count.confirmed == 120


def test_who_waits_when_the_lead_is_lost_hears_that_nobody_knows() -> None:
    count, told = count_of(1, 2), list[ConfirmOutcome]()
    count.wait(10, told.append)
    count.close()
    count.wait(5, told.append)
    count.note_progress(1, 10)
    count.note_progress(2, 10)
    assert told == [ConfirmOutcome.UNKNOWN, ConfirmOutcome.UNKNOWN]
    assert count.confirmed == 0


def test_thousands_that_are_confirmed_together_are_answered_some_at_a_time_and_in_order() -> None:
    later: list[Callable[[], None]] = []
    count = InSyncCount(1, [1, 2], min_in_sync=2, confirmed=0, schedule=later.append)
    told: list[int] = []
    advanced: list[int] = []
    count.on_advanced.append(advanced.append)
    for number in range(1_000):
        count.wait(number + 1, lambda outcome, number=number: told.append(number))  # type: ignore[misc]
    count.note_progress(1, 1_000)
    count.note_progress(2, 900)
    assert len(told) == ANSWERS_AT_ONCE
    assert advanced == [900], "readers see them at once"
    count.wait(900, lambda outcome: told.append(1_000))
    count.note_progress(2, 1_000)
    assert len(told) == ANSWERS_AT_ONCE
    while later:
        before = len(told)
        later.pop()()
        assert len(told) - before <= ANSWERS_AT_ONCE
        assert len(later) <= 1
    assert told == [*range(1_000), 1_000]


def test_who_is_confirmed_and_not_answered_yet_is_told_so_when_the_lead_ends() -> None:
    count = InSyncCount(1, [1], min_in_sync=1, confirmed=0, schedule=lambda run: None)
    told: list[ConfirmOutcome] = []
    for number in range(200):
        count.wait(number + 1, told.append)
    count.note_progress(1, 150)
    count.close()
    assert told == [ConfirmOutcome.CONFIRMED] * 150 + [ConfirmOutcome.UNKNOWN] * 50


def test_a_reply_that_fails_keeps_nobody_else_from_theirs() -> None:
    later: list[Callable[[], None]] = []
    count = InSyncCount(1, [1], min_in_sync=1, confirmed=0, schedule=later.append)
    told, advanced = list[int](), list[int]()
    count.on_advanced.append(advanced.append)

    def reply(number: int, outcome: ConfirmOutcome) -> None:
        if number in (0, 70, 150):
            raise ValueError(number)
        told.append(number)

    for number in range(200):
        count.wait(number + 1, partial(reply, number))
    for end in (10, 140):
        count.note_progress(1, end)
    while later:
        later.pop()()
    assert advanced == [10, 140]
    assert told == [number for number in range(140) if number not in (0, 70)]
    count.close()
    assert told == [number for number in range(200) if number not in (0, 70, 150)]


def test_what_the_leader_itself_has_only_grows() -> None:
    """Who waits for a part of the log that is on disk already hears so before those who wait for earlier ones."""
    count, told = count_of(1, 2), list[ConfirmOutcome]()
    count.wait(100, told.append)
    count.note_progress(1, 100)
    count.note_progress(1, 50)
    assert count.end_of(1) == 100
    count.note_progress(2, 100)
    assert told == [ConfirmOutcome.CONFIRMED]
