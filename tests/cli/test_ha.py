"""``msmq ha``, as far as no database is needed; tests/server/test_available runs it with one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import ready


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["status"], 2, "Say where the log is"),
        (["status", "--store", "mysql://x"], 2, "begins with postgresql://"),
        (["switchover", "--config", "/nonexistent"], 2, "/nonexistent"),
        (["fence", "--store", "postgresql://u@127.0.0.1:1/d"], 1, "no primary that answers"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: list[str], status: int, said: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [ready.msmq(), "ha", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == status
    assert done.stderr.startswith(f"msmq ha {words[0]}: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
