"""Makes ``format("msmq")`` known to Spark, which looks into every module whose name begins with ``pyspark_``."""

from msmq.spark.claims import settle
from msmq.spark.source import MsmqDataSource as DefaultSource

__all__ = ["DefaultSource", "settle"]
