"""Packets from files: captures, hexadecimal text, raw bytes. TCP streams are reassembled."""
