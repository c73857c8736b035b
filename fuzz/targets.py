"""The fuzz targets: one per entry point that takes bytes or text from a stranger.

`TARGETS` maps a name to its `Target`. A target is called with arbitrary bytes, must come back quickly and
raises only when it has found something. No target imports a fuzzing engine: the campaign (run.py), the short
form in the test suite and a replay all call the same functions.
"""

from __future__ import annotations

from fuzz.oracles import TARGETS
from fuzz.packet_targets import HEADERS
from fuzz.rpc_targets import SHAPES
from fuzz.value_targets import PROPERTIES

__all__ = ["HEADERS", "PROPERTIES", "SHAPES", "TARGETS"]
