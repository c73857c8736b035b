"""Definitions on the command line, there and back as JSON and as YAML."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Live


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_there_and_back(live: Live, tmp_path: Path, suffix: str) -> None:
    queue = f".\\private$\\kept-{suffix}"
    live.good("queue", "create", queue, "--label", "Kept é", "--journal")
    file = str(tmp_path / f"definitions.{suffix}")
    live.good("definitions", "export", "--output", file)
    live.good("queue", "delete", queue, "--yes")
    assert f"+ queue {queue}" in live.run("definitions", "diff", file).out
    assert live.run("definitions", "diff", file).code == 1
    live.good("definitions", "import", file, "--dry-run")
    live.bad("queue", "show", queue)
    assert f"+ queue {queue}" in live.good("definitions", "import", file)
    assert live.good("definitions", "diff", file) == "nothing differs\n"
    assert live.object("queue", "show", queue)["label"] == "Kept é"


def test_changes_as_json_and_tokens_with_their_secrets(live: Live) -> None:
    document = json.loads(live.good("definitions", "export"))
    document["tokens"].append({"name": "made", "sid": "S-1-5-21-1-2-3-9"})
    text = json.dumps(document)
    assert live.run("definitions", "diff", "-", "--json", given=text).code == 1
    change, secret = live.objects("definitions", "import", "-", given=text)
    assert (change["what"], change["thing"], change["name"]) == ("create", "token", "made")
    assert secret["name"] == "token made"
    assert len(secret["secret"]) == 64


def test_what_is_no_document(live: Live, tmp_path: Path) -> None:
    live.bad("definitions", "import", str(tmp_path / "missing"))
    live.bad("definitions", "import", "-", given="[: no")
    assert "no document" in live.bad("definitions", "import", "-", given="{}")
