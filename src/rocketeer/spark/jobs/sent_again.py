"""Stored messages sent again as new ones: what replays and dead letters that are sent back have in common."""

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, Observation
from pyspark.sql import functions as f

from rocketeer.spark.jobs.replay.properties import NOT_COPIED
from rocketeer.spark.sink.options import EFFECTIVELY_ONCE
from rocketeer.spark.source.options import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_ID: Final = "_sentAgain"


def new_messages(frame: "DataFrame", *, topic: Column, sharding_key: Column, row_id: Column) -> "DataFrame":
    """The columns the sink takes, with all properties but `NOT_COPIED`; `row_id` tells the rows of a run apart."""
    kept = f.map_filter("properties", lambda name, _: ~name.isin(*sorted(NOT_COPIED)))
    return frame.select(
        topic.alias("topic"),
        "body",
        "tags",
        "keys",
        kept.alias("properties"),
        sharding_key.alias("shardingKey"),
        row_id.alias(ROW_ID),
    )


def send_counted(messages: "DataFrame", options: dict[str, str], write_id: str) -> int:
    """Send what `new_messages` made and return how many; effectively once, `write_id` and the rows' ids are known."""
    counted = Observation()
    messages = messages.observe(counted, f.count(f.lit(1)).alias("rows"))
    if options["delivery"] == EFFECTIVELY_ONCE:
        options = {**options, "idColumn": ROW_ID, "writeId": write_id}
    else:
        messages = messages.drop(ROW_ID)
    messages.write.format(FORMAT).options(**options).mode("append").save()
    return int(counted.get["rows"])
