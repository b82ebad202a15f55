"""A leader's housekeeping goes on whatever becomes of its followers."""

from typing import Any, cast

from rocketeer.group.leadership import Leadership
from rocketeer.group.state import GroupState, Leader, Me


class EmptyLog:
    min_offset = max_offset = 0


class Unreachable:
    """A follower's link that ends when it is written to."""

    promised_until_s = 1e9

    def __init__(self, leadership: Leadership, member: int) -> None:
        self._leadership = leadership
        self._member = member
        self.beaten = 0

    def beat(self, confirmed: int, number: int) -> None:
        self.beaten += 1
        del self._leadership.followers[self._member]


async def test_followers_that_are_lost_with_a_beat_keep_nobody_else_from_it() -> None:
    me = Me(1, "store1", "s1")
    state = GroupState("g", 1, 1, Leader(1, "s1"), {1: "store1"})
    leadership = Leadership(
        state,
        me,
        [(1, 0)],
        registry=cast(Any, None),
        sent_log=cast(Any, EmptyLog()),
        clock=lambda: 100.0,
        lease_s=3,
        lag_s_max=2,
        min_in_sync=1,
        confirmed=0,
        remember=lambda state: None,
    )
    followers = {member: Unreachable(leadership, member) for member in (2, 3)}
    leadership.followers = cast(Any, dict(followers))
    leadership.tick()
    assert [follower.beaten for follower in followers.values()] == [1, 1]
    assert leadership.followers == {}
