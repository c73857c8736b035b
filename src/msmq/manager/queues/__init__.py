"""Queues as things that are made, named, opened, looked at, changed and deleted."""
