"""The window of a queue: whatever order messages finish in, nothing unfinished is ever committed."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.flow import PullLimits
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.queue import MessageQueue

QUEUE = MessageQueue("T", "b", 0)


def message(offset: int, size: int = 100) -> ReceivedMessage:
    return ReceivedMessage(bytes(size), QUEUE, offset, size)


def filled(*offsets: int, next_offset: int | None = None) -> tuple[ProcessQueue, list[ReceivedMessage]]:
    held = ProcessQueue(QUEUE, offsets[0])
    messages = [message(offset) for offset in offsets]
    held.put(messages, offsets[-1] + 1 if next_offset is None else next_offset)
    return held, messages


class ConcurrentWindow(RuleBasedStateMachine):
    """Against the plain model: a dict of unfinished offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.held = ProcessQueue(QUEUE, 5)
        self.unfinished: dict[int, ReceivedMessage] = {}
        self.done: list[ReceivedMessage] = []
        self.next = 5

    @rule(gaps=st.lists(st.integers(0, 3), max_size=5), tail=st.integers(0, 4), size=st.integers(91, 300))
    def pull(self, gaps: list[int], tail: int, size: int) -> None:
        messages = []
        for gap in gaps:
            self.next += gap
            messages.append(message(self.next, size))
            self.next += 1
        self.next += tail  # messages at the end that did not match the filter
        self.unfinished |= {each.queue_offset: each for each in messages}
        self.held.put(messages, self.next)

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        choice = (
            data.draw(st.lists(st.sampled_from(sorted(self.unfinished)), unique=True))
            if self.unfinished
            else []
        )
        messages = [self.unfinished.pop(offset) for offset in choice]
        self.done += messages
        assert self.held.finish(messages) == self.held.commit_offset

    @rule(data=st.data())
    def finish_again(self, data: st.DataObject) -> None:
        if self.done:
            self.held.finish([data.draw(st.sampled_from(self.done))])

    @invariant()
    def agrees(self) -> None:
        assert self.held.count == len(self.unfinished)
        assert self.held.bytes == sum(each.size for each in self.unfinished.values())
        assert self.held.commit_offset == min(self.unfinished, default=self.next)
        assert self.held.next_offset == self.next


TestConcurrentWindow = ConcurrentWindow.TestCase
TestConcurrentWindow.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_what_the_filter_left_out_at_the_end_is_committed_too() -> None:
    held, messages = filled(3, 4, next_offset=40)
    assert held.finish(messages) == 40


def test_a_slow_message_holds_back_the_commit_until_it_is_finished() -> None:
    held, messages = filled(10, 11, 12)
    assert held.finish(messages[1:]) == 10
    assert held.finish(messages[:1]) == 13


@given(
    batches=st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["ok", "again", "rollback"])), max_size=30)
)
def test_an_ordered_queue_gives_messages_in_order_until_they_are_committed(
    batches: list[tuple[int, str]],
) -> None:
    held, _ = filled(*range(40))
    committed = taken = 0
    for most, how in batches:
        batch = held.take(most)
        assert [each.queue_offset for each in batch] == list(range(taken, min(taken + most, 40)))
        taken += len(batch)
        if how == "ok":
            assert held.commit() == taken
            committed = taken
        elif how == "again":
            held.give_back(len(batch))
            taken -= len(batch)
        else:
            held.rollback()
            taken = committed
        assert held.commit_offset == committed
        assert held.bytes == 100 * (40 - committed)
        assert held.waiting == 40 - taken


def test_only_listeners_that_ran_too_long_are_overdue() -> None:
    held, messages = filled(*range(30))
    for each in messages[:20]:
        each.started_s = 1.0
    messages[1].started_s = 100.0
    assert held.overdue(now_s=101.0, timeout_s=50.0) == messages[:1]
    held.finish(messages[:2])
    assert held.overdue(now_s=101.0, timeout_s=50.0) == messages[2:18], "16 at a time"
    assert held.overdue(now_s=20.0, timeout_s=50.0) == []


def test_a_queue_waits_when_it_holds_too_much_of_anything() -> None:
    config = ConsumerConfig("G", queue_messages_max=2, queue_bytes_max=1000, span_max=10)
    limits = PullLimits.of(config, ordered=False, queues_of_topic=1)
    held, messages = filled(0, 1)
    assert limits.reason_to_wait(held) is None
    held.put([message(2)], 3)
    assert "3 unfinished messages" in (limits.reason_to_wait(held) or "")
    held.finish(messages)
    assert limits.reason_to_wait(held) is None
    held.put([message(3, 2000)], 4)
    assert "bytes" in (limits.reason_to_wait(held) or "")

    spread, _ = filled(0, 11)
    assert "limit 10" in (limits.reason_to_wait(spread) or "")
    ordered = PullLimits.of(config, ordered=True, queues_of_topic=1)
    assert ordered.reason_to_wait(spread) is None


def test_much_is_asked_for_only_while_much_waits_and_there_is_room() -> None:
    limits = PullLimits.of(ConsumerConfig("G", queue_messages_max=1000), ordered=False, queues_of_topic=1)
    held, _ = filled(0)
    assert limits.to_ask_for(held, 32) == 32, "nothing waits"
    held.behind = 100
    assert limits.to_ask_for(held, 32) == 100, "what waits"
    held.behind = 100_000
    assert limits.to_ask_for(held, 32) == 8 * 32
    full, _ = filled(*range(900))
    full.behind = 100_000
    assert limits.to_ask_for(full, 32) == 100, "up to the queue's limit"
    assert limits.to_ask_for(full, 200) == 200, "and as before when the limit is near"


def test_a_topics_limit_is_shared_by_its_queues() -> None:
    config = ConsumerConfig("G", topic_messages_max=100, topic_bytes_max=10)
    limits = PullLimits.of(config, ordered=False, queues_of_topic=16)
    assert (limits.messages, limits.bytes) == (6, 1)
