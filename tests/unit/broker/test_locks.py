"""Laws of the queue locks: one owner at a time, renewal keeps, a minute of silence frees."""

from hypothesis import given
from hypothesis import strategies as st

from rocketeer.broker.locks import LOCK_LIFE_MS, ChangeTrackingLocks, QueueLockTable
from rocketeer.model.queue import MessageQueue
from rocketeer.steps import finish

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(3)]
NOW = 1_000_000


def test_a_second_client_waits_until_the_owner_has_been_silent_for_a_minute() -> None:
    locks = QueueLockTable()
    assert locks.lock("G", "a", QUEUES, NOW) == QUEUES
    assert locks.lock("G", "b", QUEUES, NOW + LOCK_LIFE_MS) == []
    assert locks.lock("G", "b", QUEUES, NOW + LOCK_LIFE_MS + 1) == QUEUES
    assert locks.owner("G", QUEUES[0], NOW + LOCK_LIFE_MS + 1) == "b"


def test_a_lock_renewed_in_time_is_never_lost() -> None:
    locks = QueueLockTable()
    for minute in range(10):
        now_ms = NOW + minute * LOCK_LIFE_MS
        assert locks.lock("G", "a", QUEUES, now_ms) == QUEUES
        assert locks.lock("G", "b", QUEUES, now_ms) == []


def test_groups_do_not_lock_each_other_out() -> None:
    locks = QueueLockTable()
    assert locks.lock("G", "a", QUEUES, NOW) == QUEUES
    assert locks.lock("H", "b", QUEUES, NOW) == QUEUES


def test_only_the_owner_can_unlock() -> None:
    locks = QueueLockTable()
    locks.lock("G", "a", QUEUES, NOW)
    locks.unlock("G", "b", QUEUES)
    assert locks.lock("G", "b", QUEUES, NOW) == []
    locks.unlock("G", "a", QUEUES[:2])
    assert locks.lock("G", "b", QUEUES, NOW) == QUEUES[:2]


def test_expired_locks_leave_nothing_behind() -> None:
    locks = QueueLockTable()
    locks.lock("G", "a", QUEUES, NOW)
    finish(locks.forgetting_expired(NOW + LOCK_LIFE_MS))
    assert len(locks) == 3
    finish(locks.forgetting_expired(NOW + LOCK_LIFE_MS + 1))
    assert len(locks) == 0


step = st.tuples(
    st.sampled_from(["lock", "unlock", "forget"]),
    st.sampled_from(["a", "b", "c"]),
    st.sets(st.sampled_from(QUEUES)),
    st.integers(0, 40_000),
)


@given(st.lists(step, max_size=40))
def test_a_queue_has_the_owner_who_took_it_last_while_it_was_free(
    steps: list[tuple[str, str, set[MessageQueue], int]],
) -> None:
    locks = QueueLockTable()
    expected: dict[MessageQueue, tuple[str, int]] = {}
    now_ms = NOW
    for action, client, queues, passed_ms in steps:
        now_ms += passed_ms
        free = {
            queue
            for queue in queues
            if queue not in expected
            or expected[queue][0] == client
            or now_ms - expected[queue][1] > LOCK_LIFE_MS
        }
        if action == "lock":
            assert set(locks.lock("G", client, queues, now_ms)) == free
            expected.update(dict.fromkeys(free, (client, now_ms)))
        elif action == "unlock":
            locks.unlock("G", client, queues)
            expected = {q: held for q, held in expected.items() if q not in queues or held[0] != client}
        else:
            finish(locks.forgetting_expired(now_ms))
        for queue in QUEUES:
            owner, since_ms = expected.get(queue, (None, 0))
            alive = owner is not None and now_ms - since_ms <= LOCK_LIFE_MS
            assert locks.owner("G", queue, now_ms) == (owner if alive else None)


def test_telling_a_peer_takes_nothing_from_what_was_made_to_be_saved() -> None:
    """Else it would be made once more, all of it in one step: whoever asked at the right moment held up everybody."""
    locks = ChangeTrackingLocks(lambda: 0)
    locks.lock("G", "c", [MessageQueue("T", "b", queue_id) for queue_id in range(5_000)], 0)
    finish(locks.refresh())
    made = locks._pieces
    told = finish(locks.encoding())
    assert locks._pieces is made
    assert locks.table_text().whole() == told
