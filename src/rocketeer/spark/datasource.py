"""The data source `rocketmq`: what Spark finds by its name; readers are in `source`, writers in `sink`.

They are imported by who needs them: two of the processes that Spark starts for a read only ask for the name.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from rocketeer.spark.source.columns import FORMAT, SCHEMA, check_schema
from rocketeer.spark.versions import HAS_ROWS_WITH_PLANS, need_streams


class RocketmqDataSource(DataSource):
    """`spark.read.format("rocketmq")` and its three siblings."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        from rocketeer.spark.source.batch import BatchReader
        from rocketeer.spark.source.options import parse_options

        check_schema(schema)
        return BatchReader(parse_options(dict(self.options), streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        need_streams()
        from rocketeer.spark.source.options import parse_options
        from rocketeer.spark.source.stream import StreamReader

        check_schema(schema)
        options = parse_options(dict(self.options), streaming=True)
        if not HAS_ROWS_WITH_PLANS:
            return StreamReader(options, schema)
        from rocketeer.spark.source.prefetch import PrefetchingReader

        return PrefetchingReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from rocketeer.spark.sink.writers import open_writer

        return open_writer(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from rocketeer.spark.sink.writers import open_stream_writer

        return open_stream_writer(dict(self.options), schema, overwrite)
