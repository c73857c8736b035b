"""Makes ``format("msmq")`` known to Spark, which looks into every module whose name begins with ``pyspark_``."""

from msmq.spark.claims import settle
from msmq.spark.metrics import Metrics
from msmq.spark.progress import Lag, lag_of
from msmq.spark.source import MsmqDataSource as DefaultSource

__all__ = ["DefaultSource", "Lag", "Metrics", "lag_of", "settle"]
