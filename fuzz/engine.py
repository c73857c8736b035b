"""One target under Atheris, in a process of its own: ``python -m fuzz.engine REGISTRY TARGET [options]``.

The code under test is instrumented as it is imported; targets and oracles are not, so that coverage means
coverage of the project. Every so often an input is run with its allocations counted. Options are libFuzzer's.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import atheris  # type: ignore[import-untyped]

MEMORY_SAMPLE: Final = 1024
"""One run in so many is made under tracemalloc, which costs ten times an ordinary run."""


def main() -> None:
    _, registry, name, *options = sys.argv
    with atheris.instrument_imports(include=["msmq"]):
        targets = importlib.import_module(registry).TARGETS
    from fuzz.oracles import check_memory

    target = targets[name]
    check = target.check
    runs = 0

    def run(data: bytes) -> None:
        nonlocal runs
        runs += 1
        if runs % MEMORY_SAMPLE:
            check(data)
        else:
            check_memory(target, data)

    atheris.Setup([sys.argv[0], *options], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
