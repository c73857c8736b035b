"""A page as a real browser has it: Chromium without a window, and without a network."""

from __future__ import annotations

import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

SCRIPT: Final = Path(__file__).parents[2] / "scripts" / "chromium.sh"
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def _chromium(*arguments: str) -> str:
    subprocess.run([SCRIPT], check=True, timeout=600)
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", *_FLAGS, f"--user-data-dir={profile}", *arguments]
        done = subprocess.run(
            command, check=True, timeout=300, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    return done.stdout


def dom(page: Path) -> str:
    """The document after it was loaded."""
    return _chromium("--dump-dom", page.as_uri())


def screenshot(page: Path, to: Path, *, size: str = "1280,1600") -> None:
    _chromium("--hide-scrollbars", f"--window-size={size}", f"--screenshot={to}", page.as_uri())


class Read(HTMLParser):
    """Tables by their names, and the titles of marks by the class of their chart."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.titles: dict[str, list[str]] = {}
        self.texts: list[str] = []
        self._table = self._chart = ""
        self._inside: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._inside.append(tag)
        if tag == "table":
            self._table = given.get("id") or ""
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th"):
            self.tables[self._table][-1].append("")
        elif tag == "svg":
            self._chart = given.get("class") or ""

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            continue  # elements like meta have no end

    def handle_data(self, data: str) -> None:
        tag = self._inside[-1] if self._inside else ""
        if tag in ("td", "th"):
            self.tables[self._table][-1][-1] += data
        elif tag == "title" and self._chart:
            self.titles.setdefault(self._chart, []).append(data)
        elif tag in ("h3", "strong"):
            self.texts.append(data)
