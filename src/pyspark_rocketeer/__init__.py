"""Makes PySpark find the format `rocketmq` by itself: it looks for DefaultSource in every module named pyspark_*."""

from rocketeer.spark.datasource import RocketmqDataSource as DefaultSource

__all__ = ["DefaultSource"]
