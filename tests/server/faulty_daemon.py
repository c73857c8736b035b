"""``msmq`` with an internal error in it: after SIGUSR1, the change whose number is the first argument fails."""

from __future__ import annotations

import runpy
import signal
import sys

from msmq.testing.faults import Faults

if __name__ == "__main__":
    faults, changes = Faults(), int(sys.argv.pop(1))
    signal.signal(signal.SIGUSR1, lambda *_: faults.arm(changes))
    with faults.planted():
        runpy.run_module("msmq", run_name="__main__")
