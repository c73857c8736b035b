"""OpenMSMQ: Microsoft Message Queuing, wire-compatible, in Python.

``import msmq`` gives the client: :func:`msmq.connect`, :func:`msmq.connect_sync`, :class:`msmq.Message` and whatever
else :mod:`msmq.client` exports. It is loaded when it is first used, because the other rooms need none of it. Statuses
of MSMQ are in :mod:`msmq.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msmq import client as client
    from msmq import direct as direct
    from msmq import errors as errors
    from msmq.client import *  # noqa: F403

__version__ = "0.1.0.dev0"

_FUNCTIONS = frozenset({"connect", "connect_sync", "write_headers"})
_ROOMS = frozenset({"client", "direct", "errors"})
"""Rooms that ``msmq.NAME`` gives without an import of their own."""


def __getattr__(name: str) -> Any:
    """A name of the client, or one of the rooms an application needs."""
    if name in _ROOMS:
        return import_module(f"msmq.{name}")
    if name[:1].isupper() or name in _FUNCTIONS:
        room = import_module("msmq.client")
        if name in room.__all__:
            return getattr(room, name)
    raise AttributeError(f"module 'msmq' has no attribute {name!r}")
