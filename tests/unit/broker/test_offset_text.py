"""The text of the consumers' offsets, kept in pieces."""

import random
import time

from rocketeer.broker.offset_text import PART_QUEUES, OffsetText
from rocketeer.broker.offsets import ChangeTrackingOffsets, ConsumerOffsets
from rocketeer.protocol.bodies.offsets import decode_consumer_offsets
from rocketeer.steps import Steps, finish
from support.step_times import best_longest_step_ms


def test_the_text_always_tells_the_table_whatever_changed_and_whenever_it_was_made() -> None:
    dice = random.Random(7)
    table: dict[str, dict[int, int]] = {}
    text = OffsetText(table)
    for _ in range(300):
        key = f"T{dice.randrange(4)}@G"
        kind = dice.random()
        if kind < 0.1 and key in table:
            del table[key]
            text.removed(key)
        elif kind < 0.2:
            table[key] = dict.fromkeys(range(dice.choice((1, PART_QUEUES, 3 * PART_QUEUES + 5))), 1)
            text.replaced(key)
        else:
            queue = dice.choice((-1, 0, PART_QUEUES - 1, PART_QUEUES, 5 * PART_QUEUES, 2**31 - 1))
            table.setdefault(key, {})[queue] = dice.randrange(1000)
            text.changed(key, queue)
        if dice.random() < 0.3:  # some steps, and then something else happens
            steps = text.refresh()
            for _ in range(dice.randrange(4)):
                next(steps, None)
        if dice.random() < 0.3:
            assert decode_consumer_offsets(text.whole().encode()) == table


def test_a_commit_makes_a_part_anew_and_not_all_queues_of_its_topic() -> None:
    offsets = ConsumerOffsets()
    for queue in range(65_535):
        offsets.commit("G", "T", queue, 5)
    assert sum(1 for _ in offsets.refresh()) > 60
    offsets.commit("G", "T", 30_000, 6)
    assert sum(1 for _ in offsets.refresh()) == 2, "the part, then the piece"
    assert decode_consumer_offsets(offsets.encode().encode())["T@G"][30_000] == 6


def test_ten_times_as_many_keys_take_about_ten_times_as_long() -> None:
    def took_s(keys: int) -> float:
        text = OffsetText({f"T{number}@G": {0: number} for number in range(keys)})
        began_s = time.thread_time()
        finish(text.refresh())
        return time.thread_time() - began_s

    few_s = min(took_s(6_000) for _ in range(3))
    assert (
        min(took_s(60_000) for _ in range(2)) < 30 * few_s
    )  # a walk past all that are done made it a hundred


def told(text: OffsetText) -> dict[str, dict[int, int]]:
    return decode_consumer_offsets(text.table_text().whole())


def test_commits_without_end_do_not_keep_the_text_from_being_made() -> None:
    """Meanwhile no table was saved, and who changed a group waited."""
    offsets = ConsumerOffsets()
    for number in range(100):
        offsets.commit("G", f"T{number}", 0, 1)
    for queue in range(3 * PART_QUEUES):
        offsets.commit("H", "T", queue, 1)
    steps = offsets.refresh()
    for number in range(2, 1_000):
        if next(steps, "done") == "done":
            break
        for topic in range(100):
            offsets.commit("G", f"T{topic}", 0, number)
        offsets.commit("H", "T", number % (3 * PART_QUEUES), number)
    else:
        raise AssertionError("it does not end")
    assert decode_consumer_offsets(offsets.table_text().whole()).keys() == offsets.table.keys()
    finish(offsets.refresh())
    assert decode_consumer_offsets(offsets.table_text().whole()) == offsets.table


def test_what_changed_before_a_pass_is_in_the_text_behind_it_whoever_makes_it_or_breaks_off() -> None:
    """The keeper saves while peers are told: each at its own pace, and a stop breaks them off."""
    dice = random.Random(3)
    for _ in range(30):
        table: dict[str, dict[int, int]] = {}
        text = OffsetText(table)
        under_way: list[tuple[Steps[None], dict[str, int]]] = []
        for offset in range(200):
            key = f"T{dice.randrange(8)}@G"
            queue = dice.choice((0, 1, PART_QUEUES, 3 * PART_QUEUES))
            queues = table.setdefault(key, dict.fromkeys(range(2 * PART_QUEUES), 0) if key < "T1" else {})
            queues[queue] = offset
            text.changed(key, queue)
            if dice.random() < 0.05:
                key = dice.choice(list(table))
                del table[key]
                text.removed(key)
                for _, known in under_way:
                    known.pop(key, None)
            if dice.random() < 0.1:
                under_way.append(
                    (text.refresh(), {key: max(queues.values()) for key, queues in table.items()})
                )
                next(under_way[-1][0], None)
            for steps, known in dice.sample(under_way, dice.randrange(len(under_way) + 1)):
                if dice.random() < 0.05:
                    steps.close()
                    under_way.remove((steps, known))
                elif next(steps, "done") == "done":
                    under_way.remove((steps, known))
                    now = told(text)
                    assert all(max(now[key].values()) >= known[key] for key in known)
        finish(text.refresh())
        assert told(text) == table


def test_an_offset_that_is_committed_once_more_changes_nothing() -> None:
    offsets = ChangeTrackingOffsets()
    offsets.commit("G", "T", 0, 5)
    finish(offsets.refresh())
    assert offsets.take_dirty()
    offsets.changed.clear()
    offsets.commit("G", "T", 0, 5)
    assert not offsets.take_dirty()
    assert not offsets.changed
    assert list(offsets.refresh()) == []


def test_peers_are_told_again_what_was_committed_while_others_were_told() -> None:
    offsets = ConsumerOffsets()
    for number in range(2_000):
        offsets.commit("G", f"T{number}", 0, 1)
    steps = offsets.encoding()
    for number in range(3_000):
        if number == 1_990:
            for topic in range(2_000):
                offsets.commit("G", f"T{topic}", 0, 2)
        if next(steps, "done") == "done":
            break
    assert decode_consumer_offsets(finish(offsets.encoding())) == offsets.table
    assert finish(offsets.encoding()) is finish(offsets.encoding()), "nothing changed: it is kept"


def test_no_step_is_long_however_many_queues_a_group_commits_for() -> None:
    offsets = ConsumerOffsets()
    for queue in range(65_536):
        offsets.commit("G", "T", queue, 5)

    def refreshing() -> Steps[None]:
        offsets.set_queues("T@G", offsets.of("G", "T"))
        return offsets.refresh()

    assert best_longest_step_ms(refreshing) < 2.5
    assert best_longest_step_ms(offsets.encoding) < 2.5
    assert best_longest_step_ms(lambda: offsets.copying_group("G", "H", "T")) < 3.5
    assert offsets.of("H", "T") == offsets.of("G", "T")
