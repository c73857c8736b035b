"""OpenMSMQ: Microsoft Message Queuing, wire-compatible, in Python.

``import msmq`` gives the client: :func:`msmq.connect`, :func:`msmq.connect_sync`, :class:`msmq.Message` and the rest
of :mod:`msmq.client`. It is loaded when it is first used, because the other rooms need none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from msmq.client import *  # noqa: F403
    from msmq.errors import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """A name of the client, or an error of :mod:`msmq.errors`."""
    if not name.startswith("_"):
        from msmq import client, errors

        for room in (client, errors):
            if hasattr(room, name):
                return getattr(room, name)
    raise AttributeError(f"module 'msmq' has no attribute {name!r}")
