"""Test doubles for everything that is not deterministic by itself: a disk that loses power."""

from msmq.testing.disk import PowerLoss, SimulatedDisk

__all__ = ["PowerLoss", "SimulatedDisk"]
