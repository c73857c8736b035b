"""The page for operators says what the tests run."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.ha.patroni import CONFIG

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "high-availability.md"


def test_the_settings_of_patroni_are_those_that_were_tried() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert yaml.safe_load(block) == CONFIG
