"""Dead letters sent again to where they came from, each once however often it is asked for.

A new message keeps what a replayed one keeps (all but `NOT_COPIED`). Brokers know it by the place and time of the
dead letter and by the name of the run, so the same command run again, also after it was killed, stores nothing twice.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from rocketeer.errors import ConfigError
from rocketeer.model import property_names as names
from rocketeer.model.topic import validate_topic_name
from rocketeer.spark.jobs.dead_letters.rows import ORIGIN
from rocketeer.spark.jobs.replay.properties import NOT_COPIED
from rocketeer.spark.sink.options import EFFECTIVELY_ONCE
from rocketeer.spark.source.options import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RUN: Final = "1"
_ROW_ID: Final = "_deadLetter"


def resend(
    letters: "DataFrame",
    nameserver: str,
    *,
    to: str | None = None,
    run: str = RUN,
    delivery: str = EFFECTIVELY_ONCE,
) -> int:
    """Send dead letters (rows of `dead_letters`) to their origin, or all to one topic; returns how many.

    Effectively once, a letter that an earlier call with the same `run` sent to the same topic is not stored again,
    though it counts. `at-least-once` is for brokers other than Rocketeer's.
    """
    from pyspark.sql import Observation

    check_targets(letters, to)
    counted = Observation()
    messages = to_messages(letters, to).observe(counted, f.count(f.lit(1)).alias("rows"))
    options = {"nameserver": nameserver, "delivery": delivery}
    if delivery == EFFECTIVELY_ONCE:
        options |= {"idColumn": _ROW_ID, "writeId": f"dead-letters-{run}"}
    else:
        messages = messages.drop(_ROW_ID)
    messages.write.format(FORMAT).options(**options).mode("append").save()
    return int(counted.get["rows"])


def check_targets(letters: "DataFrame", to: str | None) -> None:
    """Before anything is sent: every letter has somewhere to go."""
    if to is not None:
        validate_topic_name(to)
        return
    lost = letters.where(f.col(ORIGIN).isNull()).count()
    if lost:
        raise ConfigError(
            f"{lost} of them have no origin (no property {names.RETRY_TOPIC}): choose others, or a topic with --to"
        )


def target(to: str | None) -> Column:
    """The topic a letter goes to."""
    return f.col(ORIGIN) if to is None else f.lit(to)


def to_messages(letters: "DataFrame", to: str | None) -> "DataFrame":
    """The columns the sink takes."""
    kept = f.map_filter("properties", lambda name, _: ~name.isin(*sorted(NOT_COPIED)))
    # The place alone would do, were it not that a store can be deleted and begun anew.
    letter = f.concat_ws("/", "topic", "offsetMsgId", f.unix_millis("storeTimestamp").cast("string"))
    return letters.select(
        target(to).alias("topic"),
        "body",
        "tags",
        "keys",
        kept.alias("properties"),
        f.col("properties").getItem(names.SHARDING_KEY).alias("shardingKey"),
        letter.alias(_ROW_ID),
    )
