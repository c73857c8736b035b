"""The table of features beside those of Spark's connector for Kafka: each that we have is shown by a test."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_feature_is_shown_by_a_test() -> None:
    page = (HERE.parents[1] / "docs" / "how-to" / "spark.md").read_text(encoding="utf-8")
    table = page.partition("## Beside Spark's connector for Kafka")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "|" in line
    ]
    features = [row for row in rows[2:] if row]
    assert len(features) > 15
    for with_kafka, ours, shown in features:
        if ours == "no":
            assert not shown
            continue
        found = re.fullmatch(r"`(test_\w+\.py)::(test_\w+)`", shown)
        assert found, f"{with_kafka}: {shown}"
        assert f"def {found[2]}(" in (HERE / found[1]).read_text(encoding="utf-8"), f"there is no {shown}"
