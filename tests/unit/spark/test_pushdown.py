"""Pushed filters leave out only rows that surely fail them."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

from rocketeer.record.vectorised import FIELDS
from rocketeer.spark.source.pushdown import collect

ROWS = np.zeros(10, dtype=FIELDS)
ROWS["queue_id"] = np.arange(10) % 2
ROWS["queue_offset"] = np.arange(10)
ROWS["store_ms"] = np.arange(10) * 1000


def _time(ms: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ([], range(10)),
        ([EqualTo(("queueOffset",), 3)], [3]),
        ([GreaterThan(("queueOffset",), 3), LessThan(("queueOffset",), 6)], [4, 5]),
        ([GreaterThanOrEqual(("queueOffset",), 3), LessThanOrEqual(("queueOffset",), 6)], [3, 4, 5, 6]),
        ([In(("queueOffset",), (1, 4, 99))], [1, 4]),
        ([EqualTo(("queueId",), 1), In(("queueOffset",), (1, 2, 3))], [1, 3]),
        ([EqualTo(("storeTimestamp",), _time(2000))], [2]),
        ([GreaterThan(("storeTimestamp",), _time(7999.5))], [8, 9]),
        ([LessThan(("storeTimestamp",), _time(1000.5))], [0, 1]),
        ([Not(EqualTo(("queueId",), 1))], range(10)),
        ([EqualTo(("body",), b"x"), EqualTo(("queueId",), None)], range(10)),
    ],
)
def test_rows_by_their_heads(filters: list[Filter], kept: list[int]) -> None:
    assert np.flatnonzero(collect(filters).mask(ROWS)).tolist() == list(kept)


def test_topics_are_joined_by_and() -> None:
    assert collect([EqualTo(("topic",), "A")]).topics == {"A"}
    assert collect([In(("topic",), ("A", "B")), EqualTo(("topic",), "B")]).topics == {"B"}
    assert collect([In(("topic",), ("A", "B")), EqualTo(("topic",), "C")]).topics == set()
    assert collect([]).topics is None
