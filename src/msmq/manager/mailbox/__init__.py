"""The messages of queues: batches, positions, and the functions that put messages in and take them out."""
