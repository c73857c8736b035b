"""The site: every page is in its navigation, every link leads somewhere, every heading that is linked to is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.test_readme import ROOT

# What `make docs` builds, strictly, but without the look of it and without reading the code for the reference, which
# take a minute.
CONFIGURATION = f"""\
INHERIT: {ROOT}/mkdocs.yml
docs_dir: {ROOT}/docs
hooks: [{ROOT}/docs/gen_reference.py]
plugins: []
watch: []
theme: {{name: mkdocs, features: [], palette: []}}
"""


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Not with --quiet: a warning that is not shown is not counted, either."""
    file = tmp_path / "mkdocs.yml"
    file.write_text(f"{CONFIGURATION}site_dir: {tmp_path / 'site'}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(file)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    made = {path.relative_to(tmp_path / "site").parts[0] for path in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "how-to", "explanation", "reference"} <= made
    assert not list((tmp_path / "site").rglob("*.py*"))
