"""For effectively-once writes without an id column: rows are told apart by what is in them, and equal ones counted.

Counting is right only where all equal rows meet in one task, in every attempt. The rows' own hash brings them there.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import MapType

from rocketeer.spark.sink.columns import IDENTITY, PARTS


def identify_rows(df: DataFrame) -> DataFrame:
    """The same rows, placed so that `delivery=effectively-once` can tell them apart without an idColumn.

    Costs a shuffle, so the rows' order is lost (sort within partitions afterwards if it matters); rows of one
    shardingKey stay together. Write the result as it is: repartitioning it again would make equal rows one.
    """
    wanted = {name.lower() for name in PARTS}
    parts: list[Column] = []
    place: Column = f.col(IDENTITY).cast("string")
    for field in df.schema.fields:
        name = field.name.lower()
        if name not in wanted:
            continue
        column = f.col(f"`{field.name}`")
        parts.append(f.array_sort(f.map_entries(column)) if isinstance(field.dataType, MapType) else column)
        if name == "shardingkey":
            place = f.coalesce(column.cast("string"), place)
    return df.withColumn(IDENTITY, f.xxhash64(*parts)).repartition(place)
