"""Spans of OpenTelemetry for what a message goes through: ``pip install msmq[telemetry]``."""

from msmq.telemetry.spans import Telemetry

__all__ = ["Telemetry"]
