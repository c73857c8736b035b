"""Queues in Spark: the data source ``msmq`` and the pipelines around it. Needs the extra ``spark``."""
