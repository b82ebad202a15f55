"""Reading without a chain of options: `read(spark, "Orders", columns=["tags", "body"])`.

What is wrong with the options, the columns or the topics is raised here, as one sentence, and not by Spark later. For
what fails while a query runs there are `reason` and `clear_errors`.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.spark.failures import explain, quiet_errors
from rocketeer.spark.sessions import register
from rocketeer.spark.source.bounds import check_matched
from rocketeer.spark.source.columns import COLUMNS, schema_text
from rocketeer.spark.source.options import FORMAT, parse_options
from rocketeer.spark.source.reading import open_view
from rocketeer.spark.source.retries import with_retries
from rocketeer.spark.versions import need_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHOICES: Final = ("assign", "subscribe", "subscribePattern")


class SparkFailed(RocketeerError):
    """What went wrong in Spark, in one sentence; the whole error is its `__context__`."""


def read(
    spark: "SparkSession",
    topics: str | Sequence[str] | None = None,
    *,
    columns: Iterable[str] | None = None,
    **options: object,
) -> "DataFrame":
    """What topics have now. `columns` are the only ones read; `options` are those of the format `rocketmq`.

    `read(spark, "Orders", columns=["tags", "body"], nameserver="127.0.0.1:9876", startingTimestamp=1700000000000)`.
    Without `nameserver` (or `storePath`) $NAMESRV_ADDR is asked. ConfigError, NoRoute and the like come at once.
    """
    given = _checked(topics, options, streaming=False)
    reader = register(spark).read.format(FORMAT).options(**given)
    return (reader if columns is None else reader.schema(_schema(columns))).load()


def read_stream(
    spark: "SparkSession",
    topics: str | Sequence[str] | None = None,
    *,
    columns: Iterable[str] | None = None,
    **options: object,
) -> "DataFrame":
    """What topics have and get: `read` for streams."""
    need_streams()
    given = _checked(topics, options, streaming=True)
    reader = register(spark).readStream.format(FORMAT).options(**given)
    return (reader if columns is None else reader.schema(_schema(columns))).load()


def reason(error: BaseException) -> str:
    """An error that came out of Spark as one sentence: ours inside it, or the first of Spark's own."""
    return explain(error) or str(error)


@contextmanager
def clear_errors() -> Iterator[None]:
    """What Spark raises inside becomes SparkFailed, whose text is one sentence; PySpark's log of it is silent.

    with clear_errors():
        orders.count()
    """
    try:
        with quiet_errors():
            yield
    except RocketeerError:
        raise
    except Exception as error:
        text = explain(error)
        if text is None:  # not Spark's
            raise
        raise SparkFailed(text) from None


def _checked(
    topics: str | Sequence[str] | None, options: dict[str, object], *, streaming: bool
) -> dict[str, str]:
    """The options as Spark takes them, once they and the topics they name were looked at."""
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }
    if topics is not None:
        clash = next((name for name in given if name.lower() in {word.lower() for word in _CHOICES}), None)
        if clash is not None:
            raise ConfigError(f"topics and the option {clash!r} both say what is read: give one of them")
        given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    if not {"nameserver", "storepath"} & {name.lower() for name in given}:
        address = os.environ.get("NAMESRV_ADDR")
        if not address:
            raise ConfigError("no name server given: say nameserver='host:9876' or set NAMESRV_ADDR")
        given["nameserver"] = address
    parsed = parse_options(given, streaming=streaming)
    with closing(open_view(parsed)) as view:

        def look() -> None:
            queues = view.queues()
            if not streaming:
                check_matched(parsed, queues)
            view.check_filter(queues)

        with_retries(parsed, view, look)
    return given


def _schema(columns: Iterable[str]) -> str:
    if isinstance(columns, str):
        raise ConfigError(f"columns is {columns!r}: write a list, as [{columns!r}]")
    wanted = list(columns)
    for name in wanted:
        if name not in COLUMNS:
            raise ConfigError(f"column {name!r} does not exist; the source has {', '.join(COLUMNS)}")
        if wanted.count(name) > 1:
            raise ConfigError(f"columns has {name!r} twice: name it once, and select it twice afterwards")
    if not wanted:
        raise ConfigError("columns is empty: name those to read, or leave it out for all")
    return schema_text(wanted)
