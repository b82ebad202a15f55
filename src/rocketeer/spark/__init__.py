"""Topics as DataFrames: `spark.read.format("rocketmq")`, streams, writing. Needs `pip install 'rocketeer[spark]'`.

from rocketeer.spark import session

spark = session("orders")
orders = spark.read.format("rocketmq").option("nameserver", "127.0.0.1:9876").option("subscribe", "Orders").load()
orders.groupBy("tags").count().show()

Each name is loaded when it is first asked for: Spark starts a process for each step of a read, and each imports this.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

for _needed in ("pyarrow", "pyspark"):
    if find_spec(_needed) is None:  # pragma: no cover - the extra is there in all our environments
        raise ImportError(f"{_needed} is missing: pip install 'rocketeer[spark]'", name=_needed)

from rocketeer.spark.python_of_workers import choose_python  # noqa: E402
from rocketeer.spark.versions import check_version  # noqa: E402

check_version()
choose_python()

if TYPE_CHECKING:
    from rocketeer.spark.metrics import StreamMetrics, watch_streams
    from rocketeer.spark.reads import SparkFailed, clear_errors, read, read_stream, reason
    from rocketeer.spark.sessions import register, session
    from rocketeer.spark.sink.identity import identify_rows

__all__ = [
    "SparkFailed",
    "StreamMetrics",
    "clear_errors",
    "identify_rows",
    "read",
    "read_stream",
    "reason",
    "register",
    "session",
    "watch_streams",
]

_PLACES = {
    "SparkFailed": "reads",
    "StreamMetrics": "metrics",
    "clear_errors": "reads",
    "identify_rows": "sink.identity",
    "read": "reads",
    "read_stream": "reads",
    "reason": "reads",
    "register": "sessions",
    "session": "sessions",
    "watch_streams": "metrics",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'rocketeer.spark' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rocketeer.spark.{_PLACES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
