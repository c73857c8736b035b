"""Realistic traffic: any legal message, drawn from a seed.

A :class:`Draft` describes one message without saying how it is sent. :class:`Traffic` draws drafts from the tables in
:mod:`msmq.testing.traffic.menus`: mostly ordinary messages and always some odd ones, or, with ``everything``, each
choice as often as any other. Three doors convert a draft into the form that they take: :func:`properties_of` for the
queue manager in this process, :func:`client_message` for the Python client, and :class:`WireSender` for packets.

The same seed gives the same drafts, whatever the doors do with them.
"""

from msmq.testing.traffic.doors import WireSender, client_message, properties_of
from msmq.testing.traffic.draft import Delivery, Door, Draft, Surroundings
from msmq.testing.traffic.generator import Traffic
from msmq.testing.traffic.menus import MENUS

__all__ = [
    "MENUS",
    "Delivery",
    "Door",
    "Draft",
    "Surroundings",
    "Traffic",
    "WireSender",
    "client_message",
    "properties_of",
]
