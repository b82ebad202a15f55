"""What a member remembers, and what it refuses to believe."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocketeer.config import FlushMode
from rocketeer.errors import GroupError
from rocketeer.group.member_file import BOOT_ID, NOWHERE, MemberFile
from rocketeer.group.state import GroupState, Leader


def state(epoch: int, version: int, group: str = "g") -> GroupState:
    return GroupState(group=group, epoch=epoch, version=version, leader=Leader(1, "s"), in_sync={1: "i"})


def test_the_highest_epoch_is_there_after_a_restart_and_lower_ones_are_refused(tmp_path: Path) -> None:
    MemberFile(tmp_path).save_record(state(4, 9))
    again = MemberFile(tmp_path)
    again.save_record(state(4, 10))
    for lower in (state(3, 20), state(4, 9)):
        with pytest.raises(GroupError, match="set back"):
            again.save_record(lower)


def test_another_group_is_refused_by_name(tmp_path: Path) -> None:
    file = MemberFile(tmp_path)
    file.save_record(state(1, 1))
    with pytest.raises(GroupError, match="emptied"):
        file.check(state(5, 5, group="h"))


def test_an_incarnation_is_the_store_and_under_async_flush_the_boot(tmp_path: Path) -> None:
    file = MemberFile(tmp_path / "one")
    assert file.incarnation(FlushMode.ASYNC_FLUSH) == f"{file.now.store}/{BOOT_ID.read_text().strip()}"
    assert file.incarnation(FlushMode.SYNC_FLUSH) == MemberFile(tmp_path / "one").now.store
    assert MemberFile(tmp_path / "two").now.store != file.now.store
    before = file.now.store
    file.renew_store_id()
    assert MemberFile(tmp_path / "one").now.store != before


def test_two_threads_that_remember_leave_the_newest(tmp_path: Path) -> None:
    file = MemberFile(tmp_path)

    def remember(first: int) -> None:
        for number in range(30):
            file.set_epochs([(first, number)])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(remember, range(4)))
    assert MemberFile(tmp_path).now == file.now


def test_what_was_confirmed_is_known_at_the_least(tmp_path: Path) -> None:
    file = MemberFile(tmp_path)
    assert file.load_confirmed() == 0
    file.save_confirmed(1234)
    assert MemberFile(tmp_path).load_confirmed() == 1234


def test_a_damaged_log_makes_another_incarnation_until_it_is_cut_or_followed(tmp_path: Path) -> None:
    file = MemberFile(tmp_path)
    file.set_epochs([(1, 0), (2, 500)])
    file.save_confirmed(900)
    before = file.now.store
    file.save_damage(700)
    once = file.now.store
    assert once != before
    file.save_damage(800)  # behind it: nothing new
    file.save_damage(400)
    assert MemberFile(tmp_path).now.damaged_from == 400
    assert file.now.store not in (before, once)
    file.save_cut(600)
    assert MemberFile(tmp_path).now.damaged_from == 400, "the damage is still there"
    file.save_cut(400)
    again = MemberFile(tmp_path)
    assert (again.now.damaged_from, again.now.epochs) == (NOWHERE, [(1, 0)])
    assert again.load_confirmed() == 400, "what stands there from now on is not confirmed yet"
    file.save_damage(300)
    file.set_epochs([(1, 0), (3, 300)])
    assert MemberFile(tmp_path).now.damaged_from == NOWHERE
