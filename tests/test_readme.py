"""The examples of README.md and of the how-to pages do what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> str:
    """The fenced blocks of a page in one language, one after another."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no {language} block"
    return "\n".join(found)


def section(page: str, heading: str, language: str) -> str:
    """The first fenced block in one language behind a heading."""
    text = text_of(page).partition(f"\n## {heading}\n")[2]
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no {language} block under {heading}"
    return found.group(1)


def run(program: str, directory: Path) -> str:
    """What a program prints that runs in a directory of its own; it must end well, without a warning."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_the_page_on_embedding(tmp_path: Path) -> None:
    page = "docs/how-to/embed.md"
    assert run(blocks(page, "python"), tmp_path) == blocks(page, "text")
