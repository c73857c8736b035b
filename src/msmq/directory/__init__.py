"""Directories that a queue manager can be given (MS-MQDSSM)."""
