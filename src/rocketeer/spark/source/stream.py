"""The reader of streams. Lives in one Python process beside the driver for as long as the query runs."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rocketeer.client.core.transient import passes
from rocketeer.errors import ClientError, ConfigError, RemotingError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source import planning
from rocketeer.spark.source.bounds import starting_places
from rocketeer.spark.source.offsets import BEGAN, METRICS, QueueOffsets, from_json, to_json
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.reading import open_view, plan_tasks, read_partition
from rocketeer.spark.source.retries import with_retries
from rocketeer.spark.source.unreachable import UnreachableBrokers
from rocketeer.spark.source.view import SourceView

log = logging.getLogger(__name__)
T = TypeVar("T")
LAG_ASKED_EVERY_S: Final = 1.0
HOLD_S: Final = 0.25
"""How long an idle stream keeps Spark waiting for an answer; it hears that much later that it shall stop."""
POLLED_S_MAX: Final = 0.05
"""Longest pause between two questions of a Spark that has nothing else to do."""
POLL_S_MIN: Final = 0.005


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides what each micro-batch reads; `read` runs in the executors and uses the options only."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._view: SourceView | None = None
        self._queues: frozenset[MessageQueue] = frozenset()
        self._queues_s = float("-inf")
        self._highs: QueueOffsets = {}
        self._highs_s = float("-inf")
        self._target: QueueOffsets | None = None
        self._began_s: float | None = None
        self._shown: dict[str, Any] | None = None
        self._initial: dict[str, Any] | None = None
        self._away = UnreachableBrokers(options.fetch_retry_interval_ms / 1000)
        self._retries = 0
        self._reached: dict[str, Any] = {}
        self._answered_s = float("-inf")
        self._lag_s = 0.0
        self._lag_asked_s = float("-inf")
        self._filter_checked = options.sql is None

    # --- asked by Spark, on the driver -------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Asked more than once for one batch, and "latest" must not move in between."""
        if self._initial is None:
            self._initial = to_json(self._starting_places())
            self._shown = self._initial  # nothing was read to get here: no progress to show
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark hands it back to `latestOffset`. There is no limit for several at once: ours looks at the options."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._waiting(lambda: self._refresh(force=True))
        self._target = dict(self._highs)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; the same as `start` when there is none (yet).

        Spark runs a first batch even if it is empty, so the end of that one differs from its start in any case.
        """
        self._check_checkpoint(from_json(start))
        self._show_progress(start)
        self._check_filter(start)
        end = self._end_of_batch(start, limit)
        if end == start and self._is_polled():
            end = self._held(start, limit)
        self._answered_s = time.monotonic()
        self._reached = end
        return {**end, BEGAN: start} if start == self._initial else end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For Spark's progress: how far queues go, and what else there is to know (`spark/metrics.py`)."""
        return {**to_json(self._highs), METRICS: self._metrics()} if self._highs else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        view = self._opened()
        before, after = from_json(end.get(BEGAN, start)), from_json(end)
        self._check_checkpoint(after)
        new = [queue for queue in after if queue not in before]

        def plan() -> Sequence[InputPartition]:
            begin = {**before, **view.lows(new)} if new else before
            wanted = [QueueRange(queue, begin[queue], after[queue]) for queue in sorted(after)]
            return plan_tasks(self._options, view, wanted)

        return self._waiting(plan, known=True)

    def commit(self, end: dict[str, Any]) -> None:
        self._show_progress(end)

    def stop(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    # --- in the executors --------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, self._schema, partition)

    # --- inside ------------------------------------------------------------------------------

    def _is_polled(self) -> bool:
        """Whether Spark does nothing but ask, some 85 times a second. (With another source that has news there are
        batches between its questions, and with a trigger there is time.)"""
        asked_again_s = time.monotonic() - self._answered_s
        return self._target is None and asked_again_s < POLLED_S_MAX

    def _held(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Wait for news here for a while: a question costs this process little, and the JVM a lot."""
        until_s = time.monotonic() + HOLD_S
        end = start
        while end == start and time.monotonic() < until_s:
            pause_s = max(self._options.poll_interval_ms / 1000, POLL_S_MIN)
            time.sleep(max(min(pause_s, until_s - time.monotonic()), 0))
            end = self._end_of_batch(start, limit)
        return end

    def _end_of_batch(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = from_json(start)
        highs = self._available(before)
        begin = self._with_new_queues(before, highs)
        backlog = {
            queue: highs[queue] - begin[queue]
            for queue in begin
            # What a broker has that is away waits for it; the batch goes on without. (A run to the end needs it all.)
            if highs.get(queue, -1) > begin[queue]
            and (self._target is not None or queue.broker_name not in self._away)
        }
        ends = {**begin, **{queue: highs[queue] for queue in backlog}}
        # Offsets that went back: the batch ends there, `partitions` sees it and says what is lost. A slave lags.
        back = [queue for queue in begin if highs.get(queue, begin[queue]) < begin[queue]]
        ends |= {queue: highs[queue] for queue in back if self._opened().has_master(queue)}
        if not isinstance(limit, ReadAllAvailable):
            available = sum(backlog.values())
            waited_ms = None if self._began_s is None else (time.monotonic() - self._began_s) * 1000
            least = self._options.min_offsets_per_trigger if self._target is None else None
            if planning.must_wait(available, least, waited_ms, self._options.max_trigger_delay_ms):
                return start
            if self._began_s is None:  # also a first batch with nothing in it has begun
                self._began_s = time.monotonic()
            shares = self._shares(begin, backlog)
            ends |= planning.advance({queue: begin[queue] for queue in backlog}, shares)
        if ends == before:
            return start
        self._began_s = time.monotonic()
        return to_json(ends)

    def _check_checkpoint(self, places: QueueOffsets) -> None:
        """Topics may come and go between starts; a checkpoint that has none of them is of another stream."""
        topics = sorted({queue.topic for queue in places})
        if topics and not any(map(self._options.wants, topics)):
            theirs = ", ".join(map(repr, topics[:5]))
            raise ConfigError(
                f"the checkpoint is of a stream of {theirs}, which this one does not read: "
                "choose another checkpointLocation"
            )

    def _starting_places(self) -> QueueOffsets:
        view = self._opened()
        return self._waiting(lambda: starting_places(self._options, view, view.queues(), default="latest"))

    def _waiting(self, ask: Callable[[], T], *, known: bool = False) -> T:
        """The answer; servers that are away are waited for, as long as the options say."""

        def failed() -> None:
            self._retries += 1

        return with_retries(self._options, self._opened(), ask, known=known, failed=failed)

    def _check_filter(self, start: dict[str, Any]) -> None:
        """Once, before the first batch: what executors are refused fails the query with a trace of theirs."""
        if self._filter_checked:
            return
        view = self._opened()
        self._waiting(lambda: view.check_filter(from_json(start)), known=True)
        self._filter_checked = True

    def _opened(self) -> SourceView:
        if self._view is None:
            self._view = open_view(self._options)
        return self._view

    def _available(self, before: QueueOffsets) -> QueueOffsets:
        """How far queues go: as of now, or of when a run to `AvailableNow` began."""
        if self._target is not None:
            return self._target
        self._refresh(force=False, before=before)
        return self._highs

    def _refresh(self, *, force: bool, before: Iterable[MessageQueue] = ()) -> None:
        """Spark asks again and again while nothing happens: brokers are asked only every now and then.

        `before`: queues the checkpoint knows, which are there even if nobody serves them at the moment.
        """
        now_s = time.monotonic()
        view = self._opened()
        if force or now_s - self._queues_s >= self._options.discovery_interval_ms / 1000:
            try:
                self._queues = view.queues()
            except (RemotingError, ClientError) as error:
                # A name server that is away, a topic nobody serves for a moment: go on with what is known.
                self._queues = self._queues or frozenset(filter(self._is_wanted, before))
                if force or not self._queues or not passes(error):
                    raise
                log.warning("queues not looked up error=%s", error)
            self._queues_s = now_s
        if force or now_s - self._highs_s >= self._options.poll_interval_ms / 1000:
            # A run to what is there now must know all of it; any other takes what it can get.
            found = view.highs(self._queues) if force else self._away.ask(view.highs, self._queues)
            self._highs = {**self._highs, **found}
            self._highs_s = now_s

    def _is_wanted(self, queue: MessageQueue) -> bool:
        assigned = self._options.assign
        return self._options.wants(queue.topic) if assigned is None else queue in assigned

    def _with_new_queues(self, before: QueueOffsets, highs: QueueOffsets) -> QueueOffsets:
        """Queues that came into being since are read from their first message."""
        new = [queue for queue in highs if queue not in before]
        return {**before, **self._away.ask(self._opened().lows, new)} if new else before

    def _shares(self, begin: QueueOffsets, backlog: dict[MessageQueue, int]) -> dict[MessageQueue, int]:
        options = self._options
        shares = backlog
        if options.max_bytes_per_trigger is not None:
            view = self._opened()
            means = self._waiting(
                lambda: {queue: view.mean_bytes(queue, begin[queue]) for queue in backlog}, known=True
            )
            shares = planning.share_bytes(shares, means, options.max_bytes_per_trigger)
        if options.max_offsets_per_trigger is not None:
            shares = planning.share(shares, options.max_offsets_per_trigger)
        return shares

    def _metrics(self) -> dict[str, Any]:
        return {
            "lagSeconds": round(self._lag_seconds(), 3),
            "retries": self._retries + self._away.failures,
            "brokersAway": {name: round(seconds, 1) for name, seconds in self._away.seconds().items()},
        }

    def _lag_seconds(self) -> float:
        """The age of the oldest message that is not read yet; brokers are asked once a second at most."""
        reached = from_json(self._reached)
        behind = {q: at for q, at in reached.items() if at < self._highs.get(q, 0)}
        if not behind:
            return 0.0
        now_s = time.monotonic()
        if now_s - self._lag_asked_s >= LAG_ASKED_EVERY_S:
            self._lag_asked_s = now_s
            view = self._opened()
            try:
                found = [view.stored_ms(q, at) for q, at in behind.items() if q.broker_name not in self._away]
            except (RemotingError, ClientError) as error:
                log.warning("lag not known error=%s", error)
                return self._lag_s
            oldest_ms = min((ms for ms in found if ms is not None), default=None)
            self._lag_s = 0.0 if oldest_ms is None else max(time.time() - oldest_ms / 1000, 0.0)
        return self._lag_s

    def _show_progress(self, done: dict[str, Any]) -> None:
        """What a batch begins at is done: as soon as Spark asks for the next one, not only when it runs."""
        if self._options.group is None or done == self._shown:
            return
        self._shown = done
        self._opened().commit(self._options.group, from_json(done))
