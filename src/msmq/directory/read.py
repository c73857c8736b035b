"""Read Directory and Read Directory Begin, Next and End (MS-MQDSSM 3.1.6.3 to 3.1.6.6)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from msmq.directory.conversion import Converter, Known, computer_of, default
from msmq.directory.create import check_list
from msmq.directory.filters import condition
from msmq.directory.objects import Objects
from msmq.directory.results import DirectoryFailure, generic
from msmq.directory.schema import KINDS, REQUIRED, Attribute, Kind, Use, ldap_attributes
from msmq.directory.values import DWORD
from msmq.errors import DecodeError
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
    SortKey,
)

_BELOW: Final = (Relation.LESS_THAN, Relation.LESS_THAN_OR_EQUAL)
_ABOVE: Final = (Relation.GREATER_THAN, Relation.GREATER_THAN_OR_EQUAL)
_DIRECT: Final = {"identifier", "full_path"}


def _no_pages() -> Generator[list[dict[str, list[bytes]]]]:
    yield from ()


@dataclass(slots=True)
class ReadIterator:
    """ReadDirectoryIteratorState (3.1.1.2)."""

    handle: int
    kind: Kind
    attribute_list: Sequence[str]
    ldap_attribute_list: Sequence[str]
    ldap_state: list[dict[str, list[bytes]]] = field(default_factory=list)
    """The objects found: all of them if they had to be sorted, else one page."""
    position: int = 0
    pages: Generator[list[dict[str, list[bytes]]]] = field(default_factory=_no_pages)
    """The pages that follow."""
    failure: DirectoryFailure | None = None
    known: Known = field(default_factory=dict)


class Reading:
    """The four events; ``iterators`` is ReadDirectoryIteratorStateCollection."""

    def __init__(self, objects: Objects, converter: Converter) -> None:
        self.objects = objects
        self.converter = converter
        self.iterators: dict[int, ReadIterator] = {}
        self._handles = count(1)

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, listed: Sequence[str] | None
    ) -> DirectoryObject:
        """Read Directory: directly by identifier or distinguished name, otherwise the first object that a search
        finds."""
        kind = _kind(object_class)
        one = conditions[0] if conditions is not None and len(conditions) == 1 else None
        if one is None or one.attribute not in _DIRECT or one.relation is not Relation.EQUALS:
            return self._search_one(object_class, conditions, listed)
        wanted = _with_implied(kind, check_list(kind, listed))
        guid, path = (one.value, "") if one.attribute == "identifier" else (b"", one.value)
        found = self.objects.get(path, guid, ldap_names(kind, wanted))
        return self.converter.element(kind, wanted, found, {})

    def _search_one(
        self, object_class: ObjectClass, conditions: Filter | None, listed: Sequence[str] | None
    ) -> DirectoryObject:
        """Search For One Object (3.1.6.3.1). If there is none the result is ObjectNotFound, which callers expect."""
        handle = self.begin(object_class, conditions, listed, None)
        try:
            return self.next(handle)
        except DirectoryFailure as failure:
            if failure.result is DirectoryResult.END_OF_DATA:
                raise DirectoryFailure(DirectoryResult.OBJECT_NOT_FOUND) from failure
            raise
        finally:
            self.end(handle)

    def begin(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        listed: Sequence[str] | None,
        sort_order: Mapping[str, SortKey] | None,
    ) -> int:
        """Read Directory Begin. Finding nothing is no failure."""
        kind = _kind(object_class)
        wanted = _with_implied(kind, check_list(kind, listed))
        iterator = ReadIterator(next(self._handles), kind, wanted, ldap_names(kind, wanted))
        iterator.pages = self._pages(iterator, conditions or ())
        if not self._turn_page(iterator):
            named = {one.attribute: one.value for one in conditions or () if one.relation is Relation.EQUALS}
            computer = computer_of(named)
            if computer and self.objects.look_elsewhere(computer):
                iterator.pages = self._pages(iterator, conditions or ())
                self._turn_page(iterator)
        if sort_order:
            iterator.ldap_state += [found for page in iterator.pages for found in page]
            _sort(kind, iterator.ldap_state, sort_order)
        self.iterators[iterator.handle] = iterator
        return iterator.handle

    def _pages(self, iterator: ReadIterator, conditions: Filter) -> Generator[list[dict[str, list[bytes]]]]:
        kind = iterator.kind
        asked = [clause for expression in conditions for clause in self._clauses(kind, expression)]
        try:
            yield from self.objects.pages(kind.ldap_class, asked, iterator.ldap_attribute_list)
        except DirectoryFailure as failure:
            if failure.result is not DirectoryResult.OBJECT_NOT_FOUND:
                raise

    @staticmethod
    def _turn_page(iterator: ReadIterator) -> bool:
        """Fetch the next page. Returns whether there was one."""
        iterator.ldap_state = next(filter(None, iterator.pages), [])
        iterator.position = 0
        return bool(iterator.ldap_state)

    def _more(self, iterator: ReadIterator) -> bool:
        """Whether there is another object. A search that breaks off is never taken for the end: every further call
        fails, too."""
        if iterator.failure is not None:
            raise iterator.failure
        try:
            return iterator.position < len(iterator.ldap_state) or self._turn_page(iterator)
        except DirectoryFailure as failure:
            iterator.failure = DirectoryFailure(
                DirectoryResult.DIRECTORY_NOT_CONNECTED, f"the search broke off: {failure.reason}"
            )
            raise iterator.failure from failure

    def next(self, handle: int) -> DirectoryObject:
        """Read Directory Next. An object that cannot be read is skipped by the next call."""
        iterator = self._iterator(handle)
        if not self._more(iterator):
            raise DirectoryFailure(DirectoryResult.END_OF_DATA)
        found = iterator.ldap_state[iterator.position]
        iterator.position += 1
        return self.converter.element(iterator.kind, iterator.attribute_list, found, iterator.known)

    def end(self, handle: int) -> None:
        """Read Directory End."""
        iterator = self._iterator(handle)
        iterator.pages.close()
        del self.iterators[iterator.handle]

    def queues_of(self, computer: str) -> list[DirectoryObject]:
        """The queues below one queue manager, without those that cannot be read."""
        kind = KINDS[ObjectClass.QUEUE]
        wanted = _with_implied(kind, kind.names)
        base = self.objects.names.queue_manager(computer)
        found = self.objects.search(kind.ldap_class, (), ldap_names(kind, wanted), base)
        queues: list[DirectoryObject] = []
        known: Known = {}
        for values in found:
            with suppress(DirectoryFailure):
                queues.append(self.converter.element(kind, wanted, values, known))
        return queues

    def _iterator(self, handle: int) -> ReadIterator:
        try:
            return self.iterators[handle]
        except KeyError:
            raise generic("there is no such query") from None

    # --- filters --------------------------------------------------------------------------------------------

    def _clauses(self, kind: Kind, expression: Expression) -> list[str]:
        """An attribute-filter expression as conditions on LDAP attributes; attributes that cannot be searched for are
        ignored."""
        entry = kind.find(expression.attribute)
        if entry is None or not entry.use & Use.FILTER:
            return []
        name, relation = entry.ldap[0], expression.relation
        if entry.codec is DWORD and relation not in (Relation.EQUALS, Relation.NOT_EQUALS):
            return [_unsigned(name, relation, expression.value)]
        return [condition(name, relation, value) for value in self._filter_values(entry, expression.value)]

    def _filter_values(self, entry: Attribute, value: Any) -> list[bytes]:
        if entry.codec is not None:
            many = isinstance(value, bytes) and isinstance(entry.default, tuple)
            return entry.codec.encode((value,) if many else value)
        if entry.name == "computer_name":
            return [self.objects.names.queue_manager(value).encode()]
        if entry.name == "pathname":
            return [self.objects.names.queue(value).encode()]
        return [self.converter.site_path(value)]


def _kind(object_class: ObjectClass) -> Kind:
    try:
        return KINDS[object_class]
    except KeyError:
        raise generic(f"Active Directory has no {object_class.value}") from None


def _with_implied(kind: Kind, listed: Sequence[str]) -> list[str]:
    """The attributes wanted, and those needed to find them (3.1.6.3.2.2)."""
    wanted = list(dict.fromkeys(listed))
    if any(entry.name in wanted for entry in kind.elsewhere) and "full_path" not in wanted:
        wanted.append("full_path")
    if "directory_server_type" in wanted and "directory_server" not in wanted:
        wanted.append("directory_server")
    return wanted


def ldap_names(kind: Kind, wanted: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ldap for _, ldap in ldap_attributes(kind, wanted)))


def _unsigned(name: str, relation: Relation, value: int) -> str:
    """A comparison of unsigned numbers, which the directory keeps as signed: negative ones there are large."""
    (encoded,) = DWORD.encode(value)
    plain = condition(name, relation, encoded)
    low, high = f"({name}>=0)", f"({name}<=-1)"
    if relation in _BELOW:
        return f"(&{low}{plain})" if value < 1 << 31 else f"(|{low}{plain})"
    assert relation in _ABOVE
    return f"(|{high}{plain})" if value < 1 << 31 else f"(&{high}{plain})"


def _sort(kind: Kind, found: list[dict[str, list[bytes]]], order: Mapping[str, SortKey]) -> None:
    """Sort by several attributes. Sorting is stable, so the most important one is sorted by last."""
    for name, key in sorted(order.items(), key=lambda pair: pair[1].priority):
        entry = kind.find(name)
        if key.priority and entry is not None and entry in kind.attributes and entry.ldap:
            chosen = entry
            found.sort(key=lambda values: _sort_key(chosen, values), reverse=not key.ascending)


def _sort_key(entry: Attribute, found: Mapping[str, list[bytes]]) -> Any:
    """A value to sort by: numbers as numbers, text without case; missing values come first."""
    raw = found.get(entry.ldap[0], [])
    if entry.codec is None:
        return (1, raw) if raw else (0,)
    try:
        value = entry.codec.decode(raw) if raw else default(entry)
    except DecodeError:
        return (0,)
    if value is REQUIRED or value is None:
        return (0,)
    if isinstance(value, str):
        return 1, value.casefold()
    return 1, getattr(value, "value", value)
