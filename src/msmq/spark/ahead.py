"""Fetch ahead: the next items are fetched while the reader still works on the present one."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from queue import Full, Queue
from threading import Event, Thread
from typing import Final, Generic, NamedTuple, TypeVar

_T = TypeVar("_T")
_LOOK_EVERY_S: Final = 0.1


class _End(NamedTuple):
    """The mark after the last item, with the error that ended the iterator, if any."""

    error: BaseException | None


class _Item(NamedTuple, Generic[_T]):
    value: _T


def ahead(items: Generator[_T, None, None], depth: int) -> Iterator[_T]:
    """Yield the items in order, with at most ``depth`` of them waiting. A reader that stops early should close the
    iterator: that closes the other one too, and ends its thread."""
    waiting: Queue[_Item[_T] | _End] = Queue(depth)
    stopped = Event()

    def put(found: _Item[_T] | _End) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(found, timeout=_LOOK_EVERY_S)
            except Full:
                continue
            return True
        return False

    def fetch() -> None:
        try:
            for item in items:
                if not put(_Item(item)):
                    items.close()
                    return
            put(_End(None))
        except BaseException as error:  # raised where the items are consumed
            put(_End(error))

    thread = Thread(target=fetch, name="fetching ahead", daemon=True)
    thread.start()
    try:
        while isinstance(found := waiting.get(), _Item):
            yield found.value
        if found.error is not None:
            raise found.error
    finally:
        stopped.set()
        thread.join()
