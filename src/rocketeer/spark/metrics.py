"""How streams do: lag, rows a second, retries and brokers that are away, for each query of a session.

PySpark's Data Source API has no way to fill `sources[...].metrics` of a query's progress. What the source knows
stands there all the same, in `latestOffset` under `@metrics` (`source/stream.py`); a listener makes numbers of it.

    metrics = watch_streams(spark, port=9405)      # Prometheus asks http://host:9405/metrics
    metrics.of("orders").lag_messages
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from rocketeer.errors import RocketeerError
from rocketeer.spark.source.offsets import METRICS, lag_of, read_offsets

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class NoSuchQuery(RocketeerError, KeyError):
    """No query of that name or id reads topics and has told of its progress."""


@dataclass(frozen=True)
class SourceMetrics:
    """One query's newest numbers; `brokers_away` says how many seconds which broker has not answered."""

    query: str
    batch: int = -1
    lag_messages: int = 0
    lag_seconds: float = 0.0
    """The age of the oldest message that is not read yet."""
    input_rows_per_s: float = 0.0
    processed_rows_per_s: float = 0.0
    batch_ms: int = 0
    rows: int = 0
    """Since the listener was there."""
    retries: int = 0
    """Questions of planning that brought no answer. What tasks wait for is in their logs."""
    brokers_away: Mapping[str, float] = field(default_factory=dict)


class StreamMetrics(StreamingQueryListener):
    """Keeps the numbers of a session's queries that read topics; Spark calls it in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, SourceMetrics] = {}

    def queries(self) -> list[SourceMetrics]:
        with self._lock:
            return sorted(self._by_id.values(), key=lambda found: found.query)

    def of(self, query: str) -> SourceMetrics:
        """By the query's name, or its id when it has none."""
        for found in self.queries():
            if found.query == query:
                return found
        raise NoSuchQuery(f"no query {query!r} reads topics here")

    # --- asked by Spark --------------------------------------------------------------------------

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        pass

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        self.take(json.loads(event.progress.json))

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        pass

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        with self._lock:
            self._by_id.pop(str(event.id), None)

    def take(self, progress: Mapping[str, Any]) -> None:
        """A query's progress as Spark writes it."""
        sources = [found for source in progress["sources"] if (found := _told(source)) is not None]
        if not sources:
            return
        with self._lock:
            before = self._by_id.get(progress["id"])
            self._by_id[progress["id"]] = SourceMetrics(
                progress.get("name") or progress["id"],
                progress["batchId"],
                sum(lag for lag, _ in sources),
                max(float(told.get("lagSeconds", 0.0)) for _, told in sources),
                float(progress.get("inputRowsPerSecond") or 0.0),
                float(progress.get("processedRowsPerSecond") or 0.0),
                int(progress.get("batchDuration") or 0),
                (before.rows if before is not None else 0) + int(progress.get("numInputRows") or 0),
                sum(int(told.get("retries", 0)) for _, told in sources),
                {name: s for _, told in sources for name, s in told.get("brokersAway", {}).items()},
            )

    # --- asked by Prometheus ---------------------------------------------------------------------

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        found = self.queries()
        for name, text, values in (
            ("lag_messages", "Messages that are there and not read yet", [m.lag_messages for m in found]),
            ("lag_seconds", "Age of the oldest message not read yet", [m.lag_seconds for m in found]),
            ("input_rows_per_second", "Rows that came in", [m.input_rows_per_s for m in found]),
            (
                "processed_rows_per_second",
                "Rows that were worked off",
                [m.processed_rows_per_s for m in found],
            ),
            ("batch_seconds", "What the last batch took", [m.batch_ms / 1000 for m in found]),
        ):
            family = GaugeMetricFamily(f"rocketeer_spark_{name}", text, labels=["query"])
            for metrics, value in zip(found, values, strict=True):
                family.add_metric([metrics.query], value)
            yield family
        for name, text, values in (
            ("rows", "Rows read", [m.rows for m in found]),
            ("retries", "Questions to servers that brought no answer", [m.retries for m in found]),
        ):
            counter = CounterMetricFamily(f"rocketeer_spark_{name}", text, labels=["query"])
            for metrics, value in zip(found, values, strict=True):
                counter.add_metric([metrics.query], value)
            yield counter
        away = GaugeMetricFamily(
            "rocketeer_spark_broker_away_seconds",
            "How long a broker has not answered",
            labels=["query", "broker"],
        )
        for metrics in found:
            for broker, seconds in metrics.brokers_away.items():
                away.add_metric([metrics.query, broker], seconds)
        yield away

    def describe(self) -> Iterable[Any]:
        """Nothing before there are queries; so registries do not ask for the numbers when it is added."""
        return ()


def watch_streams(
    spark: "SparkSession", *, port: int | None = None, registry: "CollectorRegistry | None" = None
) -> StreamMetrics:
    """Listen to a session's queries; with `port` serve Prometheus there, with `registry` add them to it."""
    metrics = StreamMetrics()
    spark.streams.addListener(metrics)
    if port is not None or registry is not None:
        try:
            import prometheus_client
        except ImportError as error:
            raise ImportError("prometheus-client is missing: pip install 'rocketeer[spark]'") from error
        chosen = registry or prometheus_client.CollectorRegistry()
        chosen.register(metrics)
        if port is not None:
            prometheus_client.start_http_server(port, registry=chosen)
    return metrics


def _told(source: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]] | None:
    """A source's lag in messages and what it told; None for one that is none of ours."""
    latest, end = read_offsets(source.get("latestOffset")), read_offsets(source.get("endOffset"))
    if latest is None or METRICS not in latest:
        return None
    return lag_of(latest, end) or 0, latest[METRICS]
