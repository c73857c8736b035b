"""Packets from files: captures, hexadecimal text, raw bytes. TCP streams are put together again on the way."""
