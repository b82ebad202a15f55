"""How many rows a stateful stream removed, and how many it left out for being late: from Spark's progress events."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class StateCounts:
    """Sums over all micro-batches of a block."""

    duplicates: int = 0
    late: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def add(self, operators: Any) -> None:
        for one in operators:  # Spark calls from one thread
            self.late += one.numRowsDroppedByWatermark
            self.duplicates += int(one.customMetrics.get("numDroppedDuplicateRows", 0))

    def settle(self, within_s: float = 10) -> None:
        """Events come a moment after their batch, that of the query's end is the last."""
        self.ended.wait(within_s)


@contextmanager
def counting(spark: "SparkSession") -> Iterator[StateCounts]:
    """Counts while the block runs, in which one query runs."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    counts = StateCounts()

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None:
            counts.add(event.progress.stateOperators)

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None:
            counts.ended.set()

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        yield counts
    finally:
        spark.streams.removeListener(listener)
