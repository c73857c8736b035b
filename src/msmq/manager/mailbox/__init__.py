"""What stands in a queue: the batches that come in, their positions, and the one way in and out."""
