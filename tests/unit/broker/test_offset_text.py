"""The text of the consumers' offsets, kept in pieces."""

import random
import time

from rocketeer.broker.offset_text import PART_QUEUES, OffsetText
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.protocol.bodies.offsets import decode_consumer_offsets
from rocketeer.steps import finish


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
