"""Topics as DataFrames: `spark.read.format("rocketmq")`, streams, writing. Needs `pip install 'rocketeer[spark]'`.

from rocketeer.spark import session

spark = session("orders")
orders = spark.read.format("rocketmq").option("nameserver", "127.0.0.1:9876").option("subscribe", "Orders").load()
orders.groupBy("tags").count().show()
"""

try:
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:  # pragma: no cover - the extra is there in all our environments
    raise ImportError(f"{error.name} is missing: pip install 'rocketeer[spark]'", name=error.name) from error

from rocketeer.spark.python_of_workers import choose_python
from rocketeer.spark.versions import check_version

check_version()
choose_python()

from rocketeer.spark.metrics import StreamMetrics, watch_streams  # noqa: E402
from rocketeer.spark.reads import SparkFailed, clear_errors, read, read_stream, reason  # noqa: E402
from rocketeer.spark.sessions import register, session  # noqa: E402
from rocketeer.spark.sink.identity import identify_rows  # noqa: E402

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
