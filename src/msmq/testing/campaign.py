"""Run all simulators in turn, seed after seed, until one fails or the number of seeds is reached: ``make sim``."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msmq.testing import manager_sim, network_sim, store_sim


def _store(seed: int, steps: int) -> None:
    for damaging in (False, True):
        store_sim.run(seed, steps, damaging=damaging)


def _manager(seed: int, steps: int) -> None:
    for damaging in (False, True):
        manager_sim.run(seed, steps, damaging=damaging)


def _network(seed: int, steps: int) -> None:
    network_sim.run(seed)


SIMULATORS: Final[dict[str, Callable[[int, int], None]]] = {
    "network": _network,
    "manager": _manager,
    "store": _store,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m msmq.testing.campaign", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--sim", choices=["all", *SIMULATORS], default="all", help="which simulators")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds; 0 goes on until stopped")
    parser.add_argument("--steps", type=int, default=1000, help="steps of the manager and the store")
    options = parser.parse_args(arguments)
    chosen = list(SIMULATORS) if options.sim == "all" else [options.sim]
    began = time.monotonic()
    done: Counter[str] = Counter()
    seed = options.seed
    if options.seeds != 1:  # what simulated queue managers log matters to whoever replays one seed
        logging.disable(logging.CRITICAL)
    with suppress(KeyboardInterrupt):
        while not options.seeds or seed < options.seed + options.seeds:
            for name in chosen:
                try:
                    SIMULATORS[name](seed, options.steps)
                except Exception:
                    replay = f"make sim SIM={name} SEED={seed} SEEDS=1 STEPS={options.steps}"
                    sys.stderr.write(f"\n{name}, seed {seed}; replay with: {replay}\n")
                    raise
                done[name] += 1
            figures = ", ".join(f"{count} {name}" for name, count in done.items())
            sys.stderr.write(f"\rseed {seed}: {figures}; {time.monotonic() - began:.0f} s ")
            seed += 1
    sys.stderr.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
