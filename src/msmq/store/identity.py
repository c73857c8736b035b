"""The FORMAT file, which marks a directory as a store and identifies it."""

from __future__ import annotations

from msmq.store.disk import Disk
from msmq.store.errors import NotAStoreError
from msmq.store.layout import FORMAT_FILE, format_text, parse_format, segment_number


def read_store_id(disk: Disk) -> bytes | None:
    """Return the identifier of the store on ``disk``, or None if there is no store yet."""
    names = disk.names()
    if FORMAT_FILE in names:
        file = disk.open(FORMAT_FILE)
        try:
            return parse_format(file.pread(4096, 0), disk.where)
        finally:
            file.close()
    if any(segment_number(name) is not None for name in names):
        raise NotAStoreError(f"{disk.where} has segments but no {FORMAT_FILE} file; put back a copy of it.")
    return None


def write_store_id(disk: Disk, store_id: bytes) -> bytes:
    """Make ``disk`` a store. A crash leaves the whole file or none."""
    new = FORMAT_FILE + ".new"
    file = disk.open(new, create=True)
    try:
        file.truncate(0)
        file.pwrite(format_text(store_id), 0)
        file.fdatasync()
    finally:
        file.close()
    disk.rename(new, FORMAT_FILE)
    disk.sync_directory()
    return store_id
