"""The directory of a queue manager in a domain: MS-MQDSSM behind :class:`msmq.manager.directory.Directory`.

Calls block until the domain controller has answered; :mod:`msmq.directory.cached` is for event loops. Any thread may
make them. No call raises: a failure is a result, and ``last_failure`` explains it to the thread that made the call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from msmq.directory.changes import Changed, Changes, Mark
from msmq.directory.connection import CachedConnection
from msmq.directory.conversion import Converter, computer_of
from msmq.directory.create import Creating
from msmq.directory.objects import Objects
from msmq.directory.read import Reading
from msmq.directory.resolve import Resolving
from msmq.directory.results import DirectoryFailure
from msmq.directory.sealed_stream import Observer
from msmq.directory.settings import Settings
from msmq.directory.write import Writing
from msmq.errors import DecodeError, EncodeError
from msmq.manager.directory import DirectoryObject, DirectoryResult, Filter, ObjectClass, SortKey
from msmq.security.access import Token
from msmq.security.sid import Sid

_T = TypeVar("_T")


class ActiveDirectory:
    """The events of MS-MQDSSM 3.1.6. Call :meth:`initialize` first; after an outage it is repeated automatically."""

    def __init__(self, settings: Settings, observe: Observer | None = None) -> None:
        """``observe`` is called with every LDAP message that is sent."""
        self.connection = CachedConnection(settings, observe)
        self.objects = Objects(self.connection)
        converter = Converter(self.objects)
        self.creating = Creating(self.objects, converter)
        self.reading = Reading(self.objects, converter)
        self.writing = Writing(self.objects, converter)
        self.resolving = Resolving(self.objects)
        self._changes = Changes(self.objects)
        self._told = threading.local()

    @property
    def last_failure(self) -> str:
        """Why the last operation of this thread failed, in the server's words."""
        return getattr(self._told, "failure", "")

    def initialize(self) -> bool:
        """Find the directory's naming contexts. Returns whether the directory could be reached."""
        self.objects.initialize()
        return bool(self.objects.configuration_naming_context)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the connection open between operations. Long-running processes do; a single command need not."""
        with self.objects.held():
            yield

    def attempt(self, operation: Callable[[], _T]) -> tuple[DirectoryResult, _T | None]:
        """Perform an operation and return its failure as its result."""
        try:
            return DirectoryResult.SUCCESS, operation()
        except DirectoryFailure as failure:
            self._told.failure = failure.reason
            return failure.result, None
        except (DecodeError, EncodeError) as error:
            self._told.failure = str(error)
            return DirectoryResult.GENERIC_ERROR, None

    def _about(self, computer: str, operation: Callable[[], _T]) -> tuple[DirectoryResult, _T | None]:
        """Like :meth:`attempt`, for an object of a computer whose account may be elsewhere than expected."""

        def perform() -> _T:
            try:
                return operation()
            except DirectoryFailure as failure:
                missing = failure.referred or failure.result is DirectoryResult.OBJECT_NOT_FOUND
                if not missing or not computer or not self.objects.look_elsewhere(computer):
                    raise
            return operation()

        return self.attempt(perform)

    # --- changing -------------------------------------------------------------------------------------------

    def create(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> tuple[DirectoryResult, bytes | None]:
        """Create Directory Object, with the rights of the account that the connection is bound as; ``caller`` will own
        the object."""
        return self._about(
            computer_of(item.attributes), lambda: self.creating.create(item, attributes, caller)
        )

    def delete(self, item: DirectoryObject, caller: Token | None) -> DirectoryResult:
        """Delete Directory Object."""
        return self._about(computer_of(item.attributes), lambda: self.creating.delete(item))[0]

    def write(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> DirectoryResult:
        """Write Directory."""
        return self._about(computer_of(item.attributes), lambda: self.writing.write(item, attributes))[0]

    # --- reading --------------------------------------------------------------------------------------------

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        """Read Directory."""
        return self.attempt(lambda: self.reading.read(object_class, conditions, attributes))

    def read_begin(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        attributes: Sequence[str] | None,
        sort_order: Mapping[str, SortKey] | None,
    ) -> tuple[DirectoryResult, int | None]:
        """Read Directory Begin."""
        return self.attempt(lambda: self.reading.begin(object_class, conditions, attributes, sort_order))

    def read_next(self, query: int) -> tuple[DirectoryResult, DirectoryObject | None]:
        """Read Directory Next."""
        return self.attempt(lambda: self.reading.next(query))

    def read_end(self, query: int) -> DirectoryResult:
        """Read Directory End."""
        return self.attempt(lambda: self.reading.end(query))[0]

    def queues_of(self, computer: str) -> tuple[DirectoryResult, Sequence[DirectoryObject]]:
        """All public queues of a computer, from one paged search below its queue manager."""
        result, found = self._about(computer, lambda: self.reading.queues_of(computer))
        return result, found or ()

    def computer_sid(self, computer: str) -> Sid | None:
        """The SID of a computer's account, or None if it cannot be found."""
        found = self._about(
            computer,
            lambda: self.objects.get(self.objects.names.computer(computer), b"", ["objectSid"])["objectSid"],
        )[1]
        return Sid.decode(found[0]) if found else None

    def changes(self, mark: Mark | None) -> tuple[DirectoryResult, Changed | None]:
        """What has changed since a mark, see :mod:`msmq.directory.changes`."""
        return self.attempt(lambda: self._changes.since(mark))

    # --- names ----------------------------------------------------------------------------------------------

    def resolve_distribution_list(
        self, guid: bytes, domain: str | None
    ) -> tuple[DirectoryResult, Sequence[str]]:
        """Resolve Distribution List. ``domain``, which holds the list, is not needed: the identifier is enough."""
        result, members = self.attempt(lambda: self.resolving.distribution_list(guid))
        return result, members or ()
