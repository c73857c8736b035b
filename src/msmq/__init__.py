"""OpenMSMQ: Microsoft Message Queuing, wire-compatible, in Python."""

__version__ = "0.1.0.dev0"
