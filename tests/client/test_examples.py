"""The examples of docs/client.md and of README.md, run as they stand there."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import msmq
from tests.client.support import connected, serving
from tests.test_readme import section

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PROGRAMS = [example for example in EXAMPLES if "import msmq" in example]
PROGRAMS.append(section("README.md", "In Python", "python"))
FRAGMENTS = [example for example in EXAMPLES if "import msmq" not in example]


def test_there_are_examples() -> None:
    assert len(PROGRAMS) == 3
    assert len(FRAGMENTS) >= 8


@pytest.mark.parametrize("number", range(len(FRAGMENTS)))
async def test_a_fragment(number: int, tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        source = "async def example(mq, msmq):\n" + textwrap.indent(FRAGMENTS[number], "    ")
        names: dict[str, Any] = {}
        exec(compile(source, str(PAGE), "exec"), names)
        with contextlib.redirect_stdout(io.StringIO()):
            await names["example"](mq, msmq)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program(number: int, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAMS[number]],
            env={"MSMQ_SERVER": server},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert ended.returncode == 0, ended.stderr
    assert "two" in ended.stdout
