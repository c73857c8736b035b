"""Errors that a command reports as one line on standard error before it ends with status 2."""

from __future__ import annotations


class UnreadableError(Exception):
    """The input cannot be read; the text is shown to the user behind the input's name."""
