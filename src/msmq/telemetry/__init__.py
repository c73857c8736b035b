"""Spans of OpenTelemetry for sending, receiving and processing messages: ``pip install msmq[telemetry]``."""

from msmq.telemetry.spans import Telemetry

__all__ = ["Telemetry"]
