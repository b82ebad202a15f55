"""Consumers in order: two members of a group share the ordered queues, each locked by one of them at a time.

Every now and then one leaves and another comes. What each handled, and when, is in the ledger.
"""

import contextlib
import itertools
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from faults.ledger import ORDERED, ORDERLY_GROUP, Handled, Ledger
from faults.load import Load
from rocketeer import PushConsumer, ReceivedMessage
from rocketeer.errors import RocketeerError
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.record.layout import StoredMessage
from support.records import sent_body

ALONE_S: Final = 3.0
HANDLING_S: Final = (0.0, 0.001, 0.005)
LOCK_SPARE_S: Final = 30.0
"""A member that has not renewed a lock for 30 s handles no more, and brokers give it away after 60 s: so long a listener
may be at a message before another member may begin."""
FAILS: Final = 0.01


class OrderlyLoad(Load):
    """One member stays, the other one comes and goes; `change_s` None: it stays, too."""

    def __init__(self, name: str, namesrv: str, ledger: Ledger, seed: int, *, change_s: float | None) -> None:
        super().__init__(name, namesrv, ledger)
        self._random = random.Random(f"{name} {seed}")
        self._change_s = change_s

    def work(self) -> None:
        with self._member(f"{self.name}-stays"):
            for life in itertools.count():
                with self._member(f"{self.name}-{life}"):
                    if self._ending.wait(self._change_s):
                        self._closing.wait()  # they consume until all is judged
                        return
                self._ending.wait(ALONE_S)

    @contextlib.contextmanager
    def _member(self, name: str) -> Iterator[None]:
        consumer = PushConsumer(
            ORDERLY_GROUP,
            nameserver=self._namesrv,
            instance_name=name,
            orderly=True,
            consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            concurrency=4,
            rebalance_s=5.0,
            lock_renew_s=5.0,  # one that failed while nobody led is asked for again before the lock is over
            suspend_s=0.1,
            start_timeout_s=600.0,
        )

        def handle(message: ReceivedMessage) -> None:
            began_s = time.monotonic()
            time.sleep(self._random.choice(HANDLING_S))
            fails = self._random.random() < FAILS
            self._ledger.handled.append(
                Handled(
                    message.queue.queue_id,
                    message.queue_offset,
                    message.body,
                    name,
                    began_s,
                    time.monotonic(),
                    not fails,
                )
            )
            if fails:
                raise ValueError("once more")
            self._ledger.counts["orderly"] += 1

        consumer.subscribe(ORDERED, handle)
        try:
            consumer.start()
            yield
        finally:
            with contextlib.suppress(RocketeerError):
                consumer.close()


def unhandled(ledger: Ledger) -> set[bytes]:
    """Acknowledged, and no member has been through with it."""
    done = {(each.queue_id, each.offset) for each in list(ledger.handled) if each.succeeded}
    return {ack.body for ack in ledger.acked[ORDERED] if (ack.queue_id, ack.queue_offset) not in done}


def orderly_problems(handled: Iterable[Handled], queues: Sequence[Sequence[StoredMessage]]) -> list[str]:
    """What breaks the order of a queue: two at once, a message before the one before it, one that is not there."""
    found: list[str] = []
    by_queue: dict[int, list[Handled]] = {}
    for each in sorted(handled, key=lambda each: each.began_s):
        by_queue.setdefault(each.queue_id, []).append(each)
    for queue_id, some in by_queue.items():
        found += [f"queue {queue_id}: {text}" for text in _queue_problems(some, queues[queue_id])][:3]
    return found


def _queue_problems(handled: Sequence[Handled], queue: Sequence[StoredMessage]) -> Iterator[str]:
    last: Handled | None = None
    """Whoever was at it the longest, of those that began before."""
    done = 0
    for each in handled:
        if each.offset >= len(queue) or sent_body(queue[each.offset]) != each.body:
            yield f"{each.member} handled {each.body!r} at {each.offset}, which is not there"
        if each.offset > done:
            yield f"{each.member} handled {each.offset} before {done} was done"
        if last is not None and each.began_s < last.ended_s and last.ended_s - last.began_s < LOCK_SPARE_S:
            yield (
                f"{each.member} began {each.offset} {last.ended_s - each.began_s:.3f} s before {last.member} was "
                f"through with {last.offset}"
            )
        if last is None or each.ended_s > last.ended_s:
            last = each
        if each.succeeded:
            done = max(done, each.offset + 1)
