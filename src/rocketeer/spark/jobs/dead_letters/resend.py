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
from rocketeer.spark.jobs.sent_again import new_messages, send_counted
from rocketeer.spark.sink.options import EFFECTIVELY_ONCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RUN: Final = "1"


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
    check_targets(letters, to)
    options = {"nameserver": nameserver, "delivery": delivery}
    return send_counted(to_messages(letters, to), options, f"dead-letters-{run}")


def check_targets(letters: "DataFrame", to: str | None) -> None:
    """Raise ConfigError, before anything is sent, for letters that have nowhere to go."""
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
    # The place alone would do, were it not that a store can be deleted and begun anew.
    letter = f.concat_ws("/", "topic", "offsetMsgId", f.unix_millis("storeTimestamp").cast("string"))
    sharding_key = f.col("properties").getItem(names.SHARDING_KEY)
    return new_messages(letters, topic=target(to), sharding_key=sharding_key, row_id=letter)
