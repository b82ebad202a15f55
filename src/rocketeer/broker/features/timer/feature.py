"""Messages delivered at any time: they wait in TIMER_TOPIC; which do and until when, the log can tell.

Here the parts are put together (`pending`, `admission`, `delivery`, `recall`), and what waits is noted on disk
now and then, so that a start need not read the whole log.
"""

import asyncio
import logging
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

from rocketeer.broker.feature import Dispatcher, Feature, IdlePause, Periodic, Replay
from rocketeer.broker.features.timer.delivery import TimerDelivery
from rocketeer.broker.features.timer.pending import PendingTimers
from rocketeer.broker.features.timer.recall import Recall, RecallRules
from rocketeer.broker.features.timer.restore import TimerRestore
from rocketeer.broker.features.timer.snapshot import read_snapshot, write_snapshot
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer
from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.observe import families as f
from rocketeer.observe.exposition import MetricsPage
from rocketeer.protocol.codes import RequestCode
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.skip import SkipFilter
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore
from rocketeer.threads import finish_in_thread

log = logging.getLogger(__name__)

TICK_S: Final = 0.01
REST_S: Final = 0.2
SNAPSHOT_SHARE: Final = 4
"""A snapshot is written when a fourth of the timers began or ended since the last: many are not written for few."""
SNAPSHOT_LOG_BYTES: Final = 256 << 20
"""Most log that is read again at start: about a second."""


class Timers:
    """The life of those that wait: restored at start, run by ticks, noted on disk when enough has changed."""

    def __init__(self, path: Path, store: MessageStore, writer: Writer, clock: Clock) -> None:
        self._path = path
        self._store = store
        self._restoring: TimerRestore | None = None
        self._noted_offset = 0
        self.delivery = TimerDelivery(PendingTimers(), store, writer, clock)

    # --- start -------------------------------------------------------------------------------

    def since(self) -> LogOffset:
        self._restoring = TimerRestore(read_snapshot(self._path), self._store.max_log_offset)
        self._noted_offset = self._restoring.snapshot.log_offset
        return self._noted_offset

    def on_message(self, entry: DispatchEntry) -> None:
        assert self._restoring is not None
        self._restoring.on_message(entry)

    def finish(self) -> None:
        assert self._restoring is not None
        rows = self._restoring.waiting(self._store.min_log_offset)
        self.delivery.restore(rows, self._restoring.changes)
        self._restoring = None
        if len(rows):
            log.info("timers restored pending=%d snapshot_offset=%d", len(rows), self._noted_offset)

    # --- running -----------------------------------------------------------------------------

    def run(self) -> Awaitable[None] | None:
        return self._go_on() if self.delivery.tick() else None

    async def _go_on(self) -> None:
        more = True
        while more:
            await asyncio.sleep(0)  # whoever waits for the loop comes first
            more = self.delivery.tick()

    async def note_on_disk(self) -> None:
        """Write a snapshot if reading the log instead has become expensive."""
        delivery = self.delivery
        grown = self._store.max_log_offset - self._noted_offset
        many = delivery.changes > len(delivery.pending) // SNAPSHOT_SHARE
        if many or grown >= SNAPSHOT_LOG_BYTES:
            await self.snapshot()

    async def snapshot(self) -> None:
        """The timers of this moment, on disk when this returns."""
        log_offset = self._store.whole_log_offset
        self.delivery.snapshot_begins()
        pieces = []
        for piece in self.delivery.pending.copy():
            pieces.append(piece)
            await asyncio.sleep(0)
        durable: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # What ended while the pieces were copied, by delivery or by being rolled forward, is missing in them: the
        # records that say so, and those that took its place, must be on disk first.
        end = self._store.max_log_offset
        self._store.when_durable(end, lambda ok: None if durable.done() else durable.set_result(ok))
        try:
            if not await durable:
                raise OSError(f"the disk does not have the log up to {end} yet")
            await finish_in_thread(write_snapshot, self._path, log_offset, pieces)
        except OSError as error:  # a full disk: the log still has everything
            log.error("timer snapshot not written path=%s error=%s", self._path, error)
            self.delivery.snapshot_failed()
            return
        self._noted_offset = log_offset


def timer_feature(
    recall_rules: RecallRules,
    *,
    folder: Path,
    flush_ms: int,
    store: MessageStore,
    topics: TopicTable,
    writer: Writer,
    clock: Clock,
    follows: bool,
) -> Feature:
    """`follows`: a slave delivers nothing itself; what waits follows what its master stores."""
    timers = Timers(folder / "pending", store, writer, clock)
    delivery = timers.delivery
    recall = Recall(recall_rules, timers=delivery, topics=topics, store=store, clock=clock)

    idle_pause = IdlePause(lambda: not len(delivery.pending), REST_S)

    def ensure_topic(entry: DispatchEntry) -> None:
        """Like 5.x, but not before there is a timer: brokers without any look like 4.9's."""
        idle_pause.wake()
        if topics.get(TIMER_TOPIC) is None:
            topics.create_in_send_back(TIMER_TOPIC, 1)

    def gauges(page: MetricsPage) -> Steps[None]:
        labels = page.labels(storage_type="local", storage_medium="disk", topic=TIMER_TOPIC)
        now_ms = clock.now_ms()
        late, since_ms = delivery.pending.due(now_ms)
        page.add(f.TIMING_MESSAGES, len(delivery.pending), labels)
        page.add(f.TIMER_ENQUEUED, delivery.ahead_s.count, labels)
        page.add(f.TIMER_DEQUEUED, delivery.delivered, labels)
        page.add(f.TIMER_ENQUEUE_LAG, 0, labels)  # what is stored waits at once
        page.add(f.TIMER_ENQUEUE_LATENCY, 0, labels)
        page.add(f.TIMER_DEQUEUE_LAG, late, labels)
        page.add(f.TIMER_DEQUEUE_LATENCY, now_ms - since_ms if late else 0, labels)
        ahead = delivery.ahead_s
        page.histogram(f.DELAY_LATENCY, ahead.bounds, ahead.counts, ahead.sum, labels)
        yield

    timer_topic = frozenset({TIMER_TOPIC})
    following = Dispatcher(delivery.stored, topics=timer_topic, pointing=True)
    noting = Periodic("note timers on disk", flush_ms / 1000, timers.note_on_disk)
    replay = Replay(timers.since, timers.on_message, timers.finish, SkipFilter(timer_topic))
    if follows:
        return Feature(
            "timer",
            internal_topics=(TIMER_TOPIC,),
            dispatchers=(following,),
            replays=(replay,),
            services=(noting,),
            needs=(delivery.oldest,),
        )
    return Feature(
        "timer",
        internal_topics=(TIMER_TOPIC,),
        gauges=(gauges,),
        handlers={RequestCode.RECALL_MESSAGE: recall.handle},
        dispatchers=(following, Dispatcher(ensure_topic, topics=timer_topic)),
        replays=(replay,),
        services=(Periodic("deliver timed messages", TICK_S, timers.run, idle_pause), noting),
        needs=(delivery.oldest,),
        rolls=(delivery.roll,),
        reply_fields=(recall.handle_field,),
    )
