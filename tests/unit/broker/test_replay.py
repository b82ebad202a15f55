"""At start every feature sees the messages behind its table, in one walk over the log."""

from collections.abc import Iterator

import pytest

from rocketeer.broker.feature import Replay
from rocketeer.broker.replay import replay_log
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.skip import SkipFilter


def entry(log_offset: int, size: int = 100) -> DispatchEntry:
    return DispatchEntry(log_offset, size, "T", 0, log_offset // size, 0, 0, "", None, 0, 0)


class WalkedLog:
    """A log of equal records that remembers where walks began."""

    max_log_offset = 500

    def __init__(self) -> None:
        self.walks: list[int] = []
        self.wanted: SkipFilter | None = None

    def scan(self, start: int, wanted: SkipFilter | None = None) -> Iterator[DispatchEntry]:
        self.wanted = wanted
        self.walks.append(start)
        return (entry(offset) for offset in range(start, self.max_log_offset, 100))


def test_each_replay_sees_what_is_behind_its_own_table_in_one_walk() -> None:
    log = WalkedLog()
    seen: dict[str, list[int]] = {"old": [], "new": [], "whole": []}
    finished: list[str] = []
    since = {"new": 300, "old": 100, "whole": 500}
    replays = [
        Replay(
            lambda name=name: since[name],  # type: ignore[misc]
            lambda found, name=name: seen[name].append(found.log_offset),  # type: ignore[misc]
            lambda name=name: finished.append(name),  # type: ignore[misc]
        )
        for name in since
    ]
    replay_log(log, replays)
    assert log.walks == [100]
    assert seen == {"old": [100, 200, 300, 400], "new": [300, 400], "whole": []}
    assert finished == ["new", "old", "whole"]


def test_nothing_is_walked_when_every_table_is_up_to_date() -> None:
    log = WalkedLog()
    replay_log(log, [Replay(lambda: 500, lambda found: None)])
    replay_log(log, [])
    assert log.walks == []


def test_a_walk_passes_over_what_no_replay_wants() -> None:
    log = WalkedLog()
    some = Replay(lambda: 0, lambda found: None, wanted=SkipFilter(frozenset({"A"}), properties=("p",)))
    others = Replay(lambda: 0, lambda found: None, wanted=SkipFilter(prefixes=("%DLQ%",)))
    replay_log(log, [some, others])
    assert log.wanted == SkipFilter(frozenset({"A"}), ("%DLQ%",), ("p",))
    replay_log(log, [some, Replay(lambda: 0, lambda found: None)])
    assert log.wanted is None, "one of them wants all"


@pytest.mark.passes_over
def test_a_message_at_which_one_replay_fails_is_passed_over_and_told_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[int] = []
    others: list[int] = []

    def on_message(found: DispatchEntry) -> None:
        if found.log_offset in (100, 300):
            raise KeyError("strange")
        seen.append(found.log_offset)

    replay_log(
        WalkedLog(),
        [Replay(lambda: 0, on_message), Replay(lambda: 0, lambda found: others.append(found.log_offset))],
    )
    assert seen == [0, 200, 400]
    assert others == [0, 100, 200, 300, 400]
    first, second = caplog.records
    assert "log_offset=100" in first.getMessage()
    assert "log_offset=300" in second.getMessage()
    assert (bool(first.exc_info), bool(second.exc_info)) == (True, False), "where it happened is told once"


def test_a_disk_that_fails_is_no_fault_of_a_message() -> None:
    def on_message(found: DispatchEntry) -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        replay_log(WalkedLog(), [Replay(lambda: 0, on_message)])
