"""The script of the page "Try it against Windows" that runs here: it sends what the checklist says."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests import ready
from tests.cli.support import serving

ROOT = Path(__file__).resolve().parents[2]
NOBODY = "127.0.0.99"
"""An address where no Windows is: everything waits to be sent."""


def test_what_is_sent_to_windows(tmp_path: Path) -> None:
    with serving(tmp_path / "host") as live:
        environment = {
            **os.environ,
            "MSMQ_SERVER": live.socket,
            "PATH": f"{Path(ready.msmq()).parent}:{os.environ['PATH']}",
        }
        command = [str(ROOT / "packaging" / "windows" / "try.sh"), NOBODY]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        waiting = {each["format_name"].rpartition("\\")[2]: each for each in live.objects("outgoing", "list")}
        assert {name: each["messages"] for name, each in waiting.items()} == {
            "try": 104,
            "try-tx": 100,
            "nobody": 1,
        }


def test_the_scripts_send_every_row_that_the_page_says() -> None:
    page = (ROOT / "docs" / "how-to" / "try-windows.md").read_text(encoding="utf-8")
    said = re.search(r"try\.ps1 .* rows (\d+) to (\d+) .*?try\.sh .* rows (\d+) to (\d+)", page, re.DOTALL)
    assert said
    for name, first, last in (("try.ps1", *said.groups()[:2]), ("try.sh", *said.groups()[2:])):
        text = (ROOT / "packaging" / "windows" / name).read_text(encoding="utf-8")
        rows = {int(number) for number in re.findall(r"['\"]row (\d+)", text)}
        by_hand = {11}  # the cable is pulled
        assert rows | by_hand >= set(range(int(first), int(last) + 1)), name
