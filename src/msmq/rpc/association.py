"""Association groups and the context handles in them (C706 9.3.3, 5.1.6; MS-RPCE 3.3.1.5.4).

Connections of one client that name the same association group share its context handles. When the last connection of a
group is gone, its handles are *run down*: whoever opened them is told to release what they stand for.

Handles are strict: one serves only the interface that opened it. It also serves only the user who opened it, because
what stands behind it was opened with that user's rights (ruling R1). A handle's UUID is random, so it cannot be
guessed; neither can the number of a group.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from msmq.errors import MsmqError
from msmq.rpc.pdu import Syntax
from msmq.rpc.status import FaultStatus, RpcFault
from msmq.security.access import Token

_log = logging.getLogger(__name__)

MAX_HANDLES: Final = 4_096
"""The most open handles of one group."""


@dataclass(slots=True)
class _Entry:
    target: Any
    interface: Syntax
    token: Token
    rundown: Callable[[Any], None] | None


class ContextHandles:
    """The open context handles of one association group."""

    def __init__(self, max_handles: int = MAX_HANDLES) -> None:
        self._entries: dict[bytes, _Entry] = {}
        self._max_handles = max_handles

    def __len__(self) -> int:
        return len(self._entries)

    def open(
        self, target: Any, interface: Syntax, token: Token, rundown: Callable[[Any], None] | None = None
    ) -> bytes:
        """Return a new handle for ``target``: 20 bytes, attributes of zero and a random UUID."""
        if len(self._entries) >= self._max_handles:
            raise RpcFault(FaultStatus.NCA_FAULT_REMOTE_NO_MEMORY)
        handle = bytes(4) + secrets.token_bytes(16)
        self._entries[handle] = _Entry(target, interface, token, rundown)
        return handle

    def find(self, handle: bytes, interface: Syntax, token: Token) -> Any:
        """Return what ``handle`` stands for. Raises a fault of context mismatch if it is not open here."""
        entry = self._entries.get(handle)
        if entry is not None and entry.interface is interface and entry.token is token:
            return entry.target  # nearly always
        return self._entry(handle, interface, token).target

    def close(self, handle: bytes, interface: Syntax, token: Token) -> Any:
        """Remove ``handle`` without running it down, and return what it stood for."""
        entry = self._entry(handle, interface, token)
        del self._entries[handle]
        return entry.target

    def _entry(self, handle: bytes, interface: Syntax, token: Token) -> _Entry:
        entry = self._entries.get(handle)
        if (
            entry is None
            or entry.interface != interface
            or (entry.token is not token and entry.token.user != token.user)
        ):
            raise RpcFault(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH)
        return entry

    def run_down(self) -> None:
        """Run down all handles. One that fails does not stop the others; an error that nobody expects is raised in the
        end."""
        entries, self._entries = self._entries, {}
        unexpected: Exception | None = None
        for entry in entries.values():
            if entry.rundown is not None:
                try:
                    entry.rundown(entry.target)
                except Exception as error:
                    _log.exception("a context handle could not be run down")
                    if not isinstance(error, MsmqError):
                        unexpected = error
        if unexpected is not None:
            raise unexpected


class AssociationGroup:
    """The connections of one client, and the handles they share."""

    def __init__(self, group_id: int) -> None:
        self.group_id = group_id
        self.members: set[Hashable] = set()
        self.handles = ContextHandles()


class AssociationGroups:
    """All groups of a server."""

    def __init__(self) -> None:
        self._groups: dict[int, AssociationGroup] = {}

    def __iter__(self) -> Iterator[AssociationGroup]:
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def join(self, member: Hashable, group_id: int) -> AssociationGroup | None:
        """Add ``member`` to a group, to a new one if ``group_id`` is 0. Returns None if there is no such group."""
        if group_id:
            group = self._groups.get(group_id)
            if group is None:
                return None
        else:
            group = AssociationGroup(self._fresh())
            self._groups[group.group_id] = group
        group.members.add(member)
        return group

    def _fresh(self) -> int:
        while True:
            number = secrets.randbelow(0xFFFFFFFF) + 1
            if number not in self._groups:
                return number

    def leave(self, member: Hashable, group: AssociationGroup) -> None:
        """Remove ``member`` from its group. When it was the last member, the group's handles are run down."""
        group.members.discard(member)
        if not group.members and self._groups.pop(group.group_id, None) is not None:
            group.handles.run_down()
