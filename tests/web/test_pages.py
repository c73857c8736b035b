"""The pages: small, from this server only, and as they were built."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from pathlib import Path

import pytest

from msmq.web.pages import FILES
from tests.web.support import Live

ROOT = Path(__file__).parents[2]
MOST_BYTES = 300_000


def test_all_pages_are_one_document_that_loads_nothing_from_elsewhere(live: Live) -> None:
    with live.client(None) as browser:
        first = browser.get("/")
        assert first.headers["content-type"].startswith("text/html")
        for page in ("queues", "messages", "failures", "network", "definitions", "activity"):
            assert browser.get(f"/{page}").content == first.content
        assert not re.findall(r"""(?:src|href)=["'](?!/)""", first.text)
        assert "<script>" not in first.text
        assert "style=" not in first.text
        assert browser.get("/", headers={"if-none-match": first.headers["etag"]}).status_code == 304


def test_the_whole_console_is_small_when_compressed(live: Live) -> None:
    total = 0
    with live.client(None) as browser:
        for path in ["/", "/icon.svg", *(f"/assets/{each.name}" for each in (FILES / "assets").iterdir())]:
            if path.endswith(".gz"):
                assert browser.get(path).status_code == 404
                continue
            with browser.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
                raw = b"".join(answer.iter_raw())
                assert answer.headers["content-encoding"] == "gzip"
                total += len(raw)
            plain = browser.get(path, headers={"accept-encoding": "identity"})
            assert gzip.decompress(raw) == plain.content
    assert 10_000 < total < MOST_BYTES


@pytest.mark.parametrize("path", ["/assets/..%2fpages.py", "/assets/%2e%2e/index.html", "/assets/none.js"])
def test_nothing_else_of_the_disk_is_shown(live: Live, path: str) -> None:
    with live.client(None) as browser:
        assert browser.get(path).status_code == 404


def test_the_files_in_the_package_are_what_the_sources_give(tmp_path: Path) -> None:
    environment = os.environ | {"CONSOLE_OUT": str(tmp_path / "static")}
    subprocess.run([ROOT / "scripts" / "console.sh"], check=True, timeout=900, env=environment)
    built = {
        path.relative_to(tmp_path / "static") for path in (tmp_path / "static").rglob("*") if path.is_file()
    }
    kept = {path.relative_to(FILES) for path in FILES.rglob("*") if path.is_file()}
    assert built == kept
    for name in built:
        if name.suffix != ".gz":
            assert (tmp_path / "static" / name).read_bytes() == (FILES / name).read_bytes(), (
                f"{name}: run `make console`"
            )
