"""Archives, checkpoints and claims elsewhere than in a local folder: on an object store, which renames nothing, and
whatever is killed every message is there once."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow.dataset as dataset
import pyarrow.fs as files
import pytest

from msmq.spark.storage import (
    LocalStorage,
    Storage,
    StorageError,
    file_uri,
    is_local,
    read_json,
    storage_of,
    write_json,
)
from tests.spark.elsewhere import Elsewhere
from tests.spark.stores import BUCKET, ObjectStore
from tests.spark.support import Server

# --- a local folder ---------------------------------------------------------------------------------------------------


def test_places(tmp_path: Path) -> None:
    assert is_local("/data/orders")
    assert is_local("file:/data/orders")
    assert not is_local("s3a://bucket/orders")
    assert file_uri("file:/data") == file_uri("/data") == "file:///data"
    assert storage_of(f"file:{tmp_path}").uri == f"file://{tmp_path}"
    with pytest.raises(StorageError, match="there is no session of Spark here"):
        storage_of("s3a://bucket/orders", object())  # type: ignore[arg-type]


def test_files_and_folders(tmp_path: Path) -> None:
    place: Storage = LocalStorage(str(tmp_path / "not there yet"))
    assert (place.folders("a"), place.files("a"), place.read("a")) == ([], [], None)
    place.write("a/b=1/x", b"12345")
    place.write("a/b=2/y", b"")
    place.write("a/z", b"6")
    assert place.folders("a") == ["b=1", "b=2"]
    assert place.folders("a", "b=2*") == ["b=2"]
    found = sorted(place.files("a"))
    assert [(entry.name, entry.size) for entry in found] == [("a/b=1/x", 5), ("a/b=2/y", 0), ("a/z", 1)]
    with place.open(found[0]) as file:
        file.seek(-2, io.SEEK_END)
        assert file.read() == b"45"
    for gone in ("a/b=1", "a/z", "a/none"):
        place.delete(gone)
    assert [entry.name for entry in place.files("")] == ["a/b=2/y"]


def test_a_text_that_is_replaced_is_never_missing(tmp_path: Path) -> None:
    """Where a store cannot rename over another file there is a moment without one: then the new one counts. One that
    is written by half never does."""
    place = LocalStorage(str(tmp_path))
    assert read_json(place, "about") is None
    place.write("about.new", b'{"version": ')
    assert read_json(place, "about") is None, "killed in the middle of the first"
    write_json(place, "about", {"version": 1})
    place.write("about.new", b'{"version": 2')
    assert read_json(place, "about") == {"version": 1}
    place.write("about.new", b'{"version": 2}')
    place.delete("about")
    assert read_json(place, "about") == {"version": 2}
    writing, before = place.write, list[object]()

    def half(name: str, data: bytes) -> None:
        writing(name, data[:-1])
        before.append(read_json(place, "about"))
        writing(name, data)

    place.write = half  # type: ignore[method-assign]
    write_json(place, "about", {"version": 3})
    assert before == [{"version": 2}], "the only copy is not overwritten"
    assert read_json(place, "about") == {"version": 3}
    assert [entry.name for entry in place.files("")] == ["about"]


# --- elsewhere --------------------------------------------------------------------------------------------------------


def test_killed_at_any_time_every_message_is_on_the_object_store_once(server: Server, tmp_path: Path) -> None:
    with ObjectStore.running(tmp_path) as store:
        place = Elsewhere(server, f"s3a://{BUCKET}/orders", store.settings, tmp_path)
        place.send("first")
        place.kill_when("written", *place.archive())
        assert server.bodies() == place.sent, "its batch is not committed"
        place.send("second")
        place.kill_when("half-deleted", *place.archive("--compact"))
        assert server.bodies() == []
        said = place.finish(*place.archive("--compact"), "--then", *place.replay, "--then", *place.replay)
        place.is_done(said)
        assert sorted(_archived(store)) == sorted(place.sent), "as another reader finds it"


def _archived(store: ObjectStore) -> list[str]:
    """The bodies in all folders: a compaction that is done leaves nothing twice."""
    inside = files.FileSelector(f"{BUCKET}/orders/messages")
    folders = [info for info in store.system.get_file_info(inside) if info.type == files.FileType.Directory]
    tables = [
        dataset.dataset(info.path, filesystem=store.system, format="parquet").to_table(["body"])
        for info in folders
    ]
    return [body.decode("utf-16-le") for table in tables for body in table["body"].to_pylist()]
