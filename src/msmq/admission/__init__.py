"""Limits for strangers: connections, shared fairly among addresses; answers that nobody reads; guessing of secrets."""
