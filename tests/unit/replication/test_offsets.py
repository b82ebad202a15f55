"""Consumer offsets on a slave: never backwards because a master restarted, backwards when somebody meant it."""

from rocketeer.replication.offsets import OffsetMerge

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
