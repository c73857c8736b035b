"""The storage of archives and checkpoints: a local folder, or any place that Spark reaches by a Hadoop file system.

It is used so that it works on stores without an atomic rename, such as object stores: a file counts when it is whole,
and nothing depends on moving or deleting a folder in one step. Two guarantees are needed, which every store gives: a
file that was closed is visible to everybody, and an empty file exists or does not.

A new version of a text is written beside the old one first; readers take the new one if the old is gone.

Local folders are used directly: Spark leaves what it writes there to the operating system, which may keep it in memory
for half a minute, and the messages are removed from their queue next.
"""

from __future__ import annotations

import io
import json
import os
import posixpath
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol, cast

from msmq.spark.durable import make_durable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEW: Final = ".new"
_LOCAL: Final = "file:"


class StorageError(ValueError):
    """A place that cannot be reached from here."""


class Entry(NamedTuple):
    """A file, by its name in the storage."""

    name: str
    size: int


class Storage(Protocol):
    """A folder and its content, by names with slashes."""

    @property
    def uri(self) -> str:
        """The folder, as Spark takes it."""

    def folders(self, name: str, pattern: str = "*") -> list[str]:
        """Return the names of the folders in a folder, or of those that match a pattern with asterisks; none if it does
        not exist."""

    def files(self, name: str) -> list[Entry]:
        """Return all files in a folder and its subfolders; none if it does not exist."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""

    def open(self, entry: Entry) -> BinaryIO:
        """Open a file to read parts of it."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file. When this returns it is visible to everybody; before, half of it may be."""

    def replace(self, name: str, new: str) -> None:
        """Replace a file by another; for a moment there may be none."""

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with everything in it; do nothing if it does not exist."""

    def keep(self, name: str) -> None:
        """Make sure that a file or folder survives a power failure."""


def storage_of(place: str, spark: SparkSession | None = None) -> Storage:
    """Return the storage of a path or URI.

    Raises:
        StorageError: it is not on this computer, and there is no Spark session that could reach it.
    """
    if is_local(place):
        return LocalStorage(place)
    if spark is None:
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
    if spark is None or not hasattr(spark, "_jsparkSession"):
        raise StorageError(
            f"{place} is reached by Spark's file systems, and there is no session of Spark here."
        )
    return HadoopStorage(spark, place)


def is_local(place: str) -> bool:
    """True if a path or URI is on this computer."""
    return place.startswith(_LOCAL) or "://" not in place


def file_uri(path: str) -> str:
    """Return a path or URI as Spark takes it, which also accepts ``file:/path``."""
    if path.startswith(_LOCAL) and not path.startswith("file://"):
        return "file://" + path.removeprefix(_LOCAL)
    return path if "://" in path else Path(path).absolute().as_uri()


def read_json(storage: Storage, name: str) -> dict[str, Any] | None:
    """Read what :func:`write_json` wrote, even if that was interrupted; None if there is nothing yet."""
    for written in (name, name + _NEW, name):  # once more: the new one may just have replaced it
        found = storage.read(written)
        with suppress(ValueError):
            if found is not None:
                said: dict[str, Any] = json.loads(found)
                return said
    return None


def write_json(storage: Storage, name: str, value: dict[str, Any]) -> None:
    if storage.read(name) is None and read_json(storage, name) is not None:
        storage.replace(
            name, name + _NEW
        )  # an interrupted writer left the only copy there: keep it while writing
    storage.write(name + _NEW, json.dumps(value).encode())
    storage.keep(name + _NEW)
    storage.replace(name, name + _NEW)
    storage.keep(name)


class LocalStorage:
    """A folder on this computer."""

    def __init__(self, place: str) -> None:
        self._uri = file_uri(place)
        self._root = Path(_path(self._uri))

    @property
    def uri(self) -> str:
        return self._uri

    def folders(self, name: str, pattern: str = "*") -> list[str]:
        return sorted(each.name for each in (self._root / name).glob(pattern) if each.is_dir())

    def files(self, name: str) -> list[Entry]:
        found: list[Entry] = []
        for folder, _, names in os.walk(self._root / name):
            for each in names:
                with suppress(FileNotFoundError):
                    path = Path(folder, each)
                    found.append(Entry(path.relative_to(self._root).as_posix(), path.stat().st_size))
        return found

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self._root / name).read_bytes()
        return None

    def open(self, entry: Entry) -> BinaryIO:
        return (self._root / entry.name).open("rb")

    def write(self, name: str, data: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def replace(self, name: str, new: str) -> None:
        (self._root / new).replace(self._root / name)

    def delete(self, name: str) -> None:
        path = self._root / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def keep(self, name: str) -> None:
        make_durable(self._root / name)


def _path(uri: str) -> str:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return url2pathname(urlsplit(uri).path)


class HadoopStorage:
    """A folder that Spark's own file systems reach, with Spark's own settings, from the driver."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._uri = place.rstrip("/")
        session: Any = spark
        self._java = session._jvm
        root = self._path("")
        with self._telling():
            self._system = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        self._start = len(self._system.makeQualified(root).toString().rstrip("/")) + 1

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Report errors of Java in one line: which file system is missing, or who is refused."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            yield
        except Py4JJavaError as error:
            said = str(error.java_exception.toString()).partition("\n")[0]
            raise StorageError(f"{self._uri}: {said}") from None

    @property
    def uri(self) -> str:
        return self._uri

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(posixpath.join(self._uri, name) if name else self._uri)

    def folders(self, name: str, pattern: str = "*") -> list[str]:
        with self._telling():
            found = self._system.globStatus(self._path(posixpath.join(name, pattern))) or ()
            return sorted(each.getPath().getName() for each in found if each.isDirectory())

    def files(self, name: str) -> list[Entry]:
        with self._telling():
            if not self._system.exists(self._path(name)):
                return []
            found, entries = self._system.listFiles(self._path(name), True), list[Entry]()
            while found.hasNext():
                each = found.next()
                entries.append(Entry(each.getPath().toString()[self._start :], each.getLen()))
            return entries

    def read(self, name: str) -> bytes | None:
        with self._telling():
            if not self._system.exists(self._path(name)):
                return None
            stream = self._system.open(self._path(name))
            try:
                return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def open(self, entry: Entry) -> BinaryIO:
        with self._telling():
            stream = self._system.open(self._path(entry.name))
            return cast("BinaryIO", io.BufferedReader(_Parts(self._java, stream, entry.size), 1 << 16))

    def write(self, name: str, data: bytes) -> None:
        with self._telling():
            stream = self._system.create(self._path(name), True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()

    def replace(self, name: str, new: str) -> None:
        with self._telling():
            self._system.delete(self._path(name), False)
            if not self._system.rename(self._path(new), self._path(name)):
                raise StorageError(f"{self._uri}/{new} could not be renamed.")

    def delete(self, name: str) -> None:
        with self._telling():
            self._system.delete(self._path(name), True)

    def keep(self, name: str) -> None:
        """Do nothing: file systems of clusters and object stores guarantee a file when it is closed."""


class _Parts(io.RawIOBase):
    """A file of Hadoop's that is read in parts, mostly at its end."""

    def __init__(self, java: Any, stream: Any, size: int) -> None:
        self._java, self._stream, self._size, self._at = java, stream, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = max(min(len(buffer), self._size - self._at), 0)
        if length:
            self._stream.seek(self._at)
            buffer[:length] = bytes(
                self._java.org.apache.commons.io.IOUtils.toByteArray(self._stream, length)
            )
            self._at += length
        return length

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
