"""What is counted has a bound: however many topics, groups and codes come along."""

import pytest

from rocketeer.observe import counters
from rocketeer.observe.counters import Counters
from rocketeer.steps import finish


def test_beyond_the_bound_pairs_count_for_the_broker_only() -> None:
    counted = Counters()
    for number in range(counters.GROUPS_MAX + 10):
        pair = ("topic", f"group{number}")
        counted.pull_answered(
            pair, 0, 1, messages=2, size=100, from_disk=False, code=0, took_ms=0.1, held=False
        )
        counted.went_back(*pair, dead=True)
    assert len(counted.gets) == len(counted.dead) == counters.GROUPS_MAX
    assert counted.messages_out == 2 * (counters.GROUPS_MAX + 10), "nothing is lost of the whole"
    finish(counted.forget(lambda topic, group: group == "group1"))
    counted.pull_answered(
        ("topic", "later"), 0, 1, messages=2, size=100, from_disk=False, code=0, took_ms=0.1, held=False
    )
    assert ("topic", "later") in counted.gets, "whose place is free again"


def test_beyond_the_bound_queues_count_for_their_group_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "QUEUES_MAX", 1_000)
    counted = Counters()

    def pulled(group: str, queues: int) -> int:
        for queue_id in range(queues):
            counted.pull_answered(
                ("topic", group),
                queue_id,
                1,
                messages=2,
                size=100,
                from_disk=False,
                code=0,
                took_ms=0.1,
                held=False,
            )
        return len(counted.gets["topic", group].queues)

    assert [pulled(f"group{number}", 400) for number in range(4)] == [400, 400, 200, 0]
    assert counted.gets["topic", "group3"].messages == 800, "nothing is lost of the whole"
    finish(counted.forget(lambda topic, group: group == "group1"))
    assert pulled("later", 500) == 400, "whose places are free again"


def test_codes_that_nobody_knows_are_counted_together() -> None:
    counted = Counters()
    for code in range(1_000_000, 1_010_000):
        counted.answered_by_router(code, 3, 0.0001)
    assert {key: times.count for key, times in counted.rpc.items()} == {
        (counters.UNKNOWN_CODE, 3, False): 10_000
    }


def test_answers_that_nobody_knows_are_counted_together() -> None:
    """Members of groups make up the codes that requests 307 and 309 are answered with."""
    counted = Counters()
    for code in range(1_000_000, 1_010_000):
        counted.answered_by_router(307, code, 0.0001)
    assert {key: times.count for key, times in counted.rpc.items()} == {
        (307, counters.UNKNOWN_CODE, False): 10_000
    }
