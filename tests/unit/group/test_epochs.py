"""Where two logs part, by the lists of their epochs."""

from hypothesis import given
from hypothesis import strategies as st

from rocketeer.group.epochs import begun, common_end, within


def test_logs_of_the_same_epochs_are_equal_up_to_the_shorter_one() -> None:
    epochs = [(0, 0), (1, 100), (4, 250)]
    assert common_end(epochs, 300, epochs, 280) == 280


def test_a_tail_that_the_next_leader_did_not_have_is_parted_from() -> None:
    assert common_end([(1, 0), (2, 100)], 180, [(1, 0)], 150) == 100
    assert common_end([(1, 0)], 150, [(1, 0), (2, 100)], 180) == 100


def test_an_epoch_that_only_one_has_is_no_common_ground() -> None:
    assert common_end([(1, 0), (3, 120)], 200, [(1, 0), (2, 100)], 150) == 100


def test_logs_without_a_common_epoch_have_nothing_in_common() -> None:
    assert common_end([(7, 0)], 10, [(8, 0)], 10) == -1


def test_epochs_of_bytes_that_never_came_are_left_out() -> None:
    assert within([(1, 0), (2, 50), (3, 90)], 60) == [(1, 0), (2, 50)]
    assert begun([(1, 0), (2, 50), (3, 90)], 4, 60) == [(1, 0), (2, 50), (4, 60)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 50), st.booleans()), max_size=30))
def test_what_was_written_by_whom_decides_where_logs_part(steps: list[tuple[int, int, bool]]) -> None:
    """Three members; each step elects one (its log stays whole), which appends, and perhaps one follows it."""
    logs = [list[int]() for _ in range(3)]
    epochs = [[(0, 0)] for _ in range(3)]
    for epoch, (leader, size, one_follows) in enumerate(steps, 1):
        epochs[leader] = begun(epochs[leader], epoch, len(logs[leader]))
        logs[leader] += [epoch] * size
        for other in range(3):
            if other == leader:
                continue
            end = common_end(epochs[leader], len(logs[leader]), epochs[other], len(logs[other]))
            same = 0
            while same < min(len(logs[leader]), len(logs[other])) and logs[leader][same] == logs[other][same]:
                same += 1
            assert 0 <= end <= same, "never beyond what is equal"
            assert logs[leader][:end] == logs[other][:end]
            if one_follows and other == (leader + 1) % 3:
                logs[other] = logs[leader][: end + size]
                epochs[other] = list(epochs[leader])
