"""Test doubles for everything that is not deterministic by itself: disks, networks, event loops and the directory."""

from msmq.testing.disk import PowerLoss, SimulatedDisk

__all__ = ["PowerLoss", "SimulatedDisk"]
