"""Rights, keys and certificates of the queue manager and its users."""
