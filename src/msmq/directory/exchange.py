"""Requests and answers on one LDAP connection, many at a time.

LDAP numbers its messages, so a client need not wait for one answer before it sends the next request (RFC 4511 3.1).
The functions here make requests, send several of them at once, and hand out the answers in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import ldap3
from ldap3.operation.add import add_operation
from ldap3.operation.delete import delete_operation
from ldap3.operation.modify import modify_operation
from ldap3.operation.search import search_operation
from ldap3.protocol.rfc2696 import paged_search_control
from ldap3.utils.asn1 import decode_message_fast

_PAGED_RESULTS: Final = "1.2.840.113556.1.4.319"
_MORE_TO_COME: Final = frozenset({"searchResEntry", "searchResRef", "intermediateResponse"})

# The stubs of ldap3 do not declare these.
_add: Final[Callable[..., Any]] = add_operation
_delete: Final[Callable[..., Any]] = delete_operation
_modify: Final[Callable[..., Any]] = modify_operation
_search: Final[Callable[..., Any]] = search_operation
_paged: Final[Callable[..., Any]] = paged_search_control
_decode: Final[Callable[[bytes], Mapping[str, Any]]] = decode_message_fast

Values = Mapping[str, Sequence[bytes]]


class Request(NamedTuple):
    """A request that is ready to be sent."""

    operation: str
    body: Any
    controls: Sequence[Any] = ()
    question: Hashable = None
    """Identifies a request that changes nothing: equal ones made at the same time share the answer."""


class Entry(NamedTuple):
    """An object that a search found; names of attributes are in lower case."""

    dn: str
    attributes: Mapping[str, Sequence[bytes]]

    def get(self, name: str) -> list[bytes]:
        return list(self.attributes.get(name.lower(), ()))


@dataclass(slots=True)
class Answer:
    """The objects of a search, and the result of any request."""

    entries: list[Mapping[str, Any]] = field(default_factory=list)
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def found(self) -> list[Entry]:
        """The objects that were found; referrals are ignored."""
        return [
            Entry(each["dn"], {name.lower(): values for name, values in each["raw_attributes"].items()})
            for each in self.entries
            if each["type"] == "searchResEntry"
        ]

    @property
    def cookie(self) -> bytes:
        """Where the next page begins; empty after the last one."""
        paging = self.result.get("controls", {}).get(_PAGED_RESULTS, {}).get("value", {})
        return paging.get("cookie") or b""


class Page(NamedTuple):
    """The size of a search's pages, and where to begin."""

    size: int
    cookie: bytes = b""


def search(
    base: str,
    conditions: str,
    attributes: Sequence[str],
    *,
    subtree: bool,
    time_limit_s: int,
    controls: Sequence[Any],
    page: Page | None,
) -> Request:
    body = _search(
        base,
        conditions,
        ldap3.SUBTREE if subtree else ldap3.BASE,
        ldap3.DEREF_NEVER,
        list(attributes) or [ldap3.NO_ATTRIBUTES],
        0,
        time_limit_s,
        False,  # values, not only types
        False,  # already escaped
        False,  # and already encoded
    )
    paging = [] if page is None else [_paged(size=page.size, cookie=page.cookie)]
    question = (base, conditions, tuple(attributes), subtree, page)
    return Request("searchRequest", body, [*controls, *paging], question)


def add(dn: str, ldap_class: str, values: Values) -> Request:
    given = {name: list(each) for name, each in values.items() if each}
    return Request("addRequest", _add(dn, {"objectClass": [ldap_class], **given}, auto_encode=False))


def delete(dn: str) -> Request:
    return Request("delRequest", _delete(dn))


def replace(dn: str, values: Values, controls: Sequence[Any] = ()) -> Request:
    changes = {name: [(ldap3.MODIFY_REPLACE, list(each))] for name, each in values.items()}
    return Request("modifyRequest", _modify(dn, changes, auto_encode=False), controls)


def exchange(
    handle: ldap3.Connection, requests: Sequence[Request], done: Callable[[int, Answer], None]
) -> None:
    """Send requests together, and call ``done`` with the number of a request and its answer as answers come.

    Raises:
        OSError, LDAPException: the connection is lost; requests without an answer may have been carried out.
    """
    strategy: Any = handle.strategy
    waiting: dict[int, tuple[int, Answer]] = {}
    for number, request in enumerate(requests):
        identifier = strategy.send(request.operation, request.body, list(request.controls) or None)
        waiting[identifier] = number, Answer()
    while waiting:
        for identifier, response in _received(strategy):
            if identifier not in waiting:
                raise OSError("the server ended the session or answered what nobody asked")
            number, answer = waiting[identifier]
            if response["type"] in _MORE_TO_COME:
                answer.entries.append(response)
                continue
            answer.result = response
            del waiting[identifier]
            strategy._outstanding.pop(identifier, None)
            done(number, answer)


def _received(strategy: Any) -> list[tuple[int, Mapping[str, Any]]]:
    messages = strategy.receiving()
    if not messages:
        raise OSError("the server hung up")
    decoded = [_decode(message) for message in messages]
    return [(int(each["messageID"]), strategy.decode_response_fast(each)) for each in decoded]
