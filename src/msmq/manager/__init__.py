"""MS-MQDMPR: the queue manager. Synchronous and deterministic; see :mod:`msmq.manager.queue_manager`."""
