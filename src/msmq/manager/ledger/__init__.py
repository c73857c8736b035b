"""What the queue manager writes down, and how it finds itself again after a restart."""
