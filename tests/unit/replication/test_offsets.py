"""Consumer offsets on a slave: never backwards because a master restarted, backwards when somebody meant it."""

from rocketeer.replication.offsets import KEYS_AT_ONCE, OffsetMerge

KEY = "T@G"


def test_rocketmq_issue_1094_a_master_that_restarted_with_an_old_table_sets_nobody_back() -> None:
    merge = OffsetMerge()
    ours = merge.merged({}, {KEY: {0: 100}}, "first start")
    ours = merge.merged(ours, {KEY: {0: 150, 1: 7}}, "first start")
    assert ours == {KEY: {0: 150, 1: 7}}
    ours = merge.merged(ours, {KEY: {0: 100}}, "second start")
    assert ours == {KEY: {0: 150, 1: 7}}, "the master lost its last commits, the slave did not"
    ours = merge.merged(ours, {KEY: {0: 100}}, "second start")
    assert ours == {KEY: {0: 150, 1: 7}}, "and keeps them as long as nobody commits"
    ours = merge.merged(ours, {KEY: {0: 120}}, "second start")
    assert ours == {KEY: {0: 120, 1: 7}}, "a commit at the master counts, wherever it leads"


def test_a_reset_on_a_running_master_is_followed_backwards() -> None:
    merge = OffsetMerge()
    ours = merge.merged({}, {KEY: {0: 100}}, "s")
    ours = merge.merged(ours, {KEY: {0: 200}}, "s")
    ours = merge.merged(ours, {KEY: {0: 100}}, "s")
    assert ours == {KEY: {0: 100}}, "also when it is the offset that the master started with"


def test_a_group_deleted_on_a_running_master_goes_and_one_the_master_lost_stays() -> None:
    merge = OffsetMerge()
    ours = merge.merged({"A@G": {0: 1}}, {KEY: {0: 5}}, "s")
    assert ours == {"A@G": {0: 1}, KEY: {0: 5}}
    ours = merge.merged(ours, {}, "s")
    assert ours == {"A@G": {0: 1}}
    assert merge.merged({KEY: {0: 5}}, {}, "t") == {KEY: {0: 5}}


def test_what_others_commit_between_two_steps_is_kept() -> None:
    merge = OffsetMerge()
    ours: dict[str, dict[int, int]] = {"Mine@G": {0: 1}}
    theirs = {f"T{number}@G": {0: number} for number in range(10 * KEYS_AT_ONCE)}
    steps = 0
    for change in merge.merging(ours, dict(theirs), "s"):
        steps += 1
        ours[f"Meanwhile{steps}@G"] = {0: steps}
        if change is not None:
            assert change[1] is not None
            ours[change[0]] = change[1]
    assert steps > 10 * KEYS_AT_ONCE, "a key a step"
    assert {key: queues for key, queues in ours.items() if key in theirs} == theirs
    assert ours["Mine@G"] == {0: 1}
    assert len(ours) == len(theirs) + steps + 1
    moved = {**theirs, "T7@G": {0: 700}}
    del moved["T8@G"]
    changes = list(merge.merging(ours, moved, "s"))
    assert [change for change in changes if change is not None] == [("T8@G", None), ("T7@G", {0: 700})]
    assert len(changes) >= 20, "keys that did not move are passed by some a step"
