"""The records of the queue manager, and its recovery after a restart."""
