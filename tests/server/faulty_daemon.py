"""``msmq`` with an internal error: after SIGUSR1, the call whose number is the first argument fails."""

from __future__ import annotations

import runpy
import signal
import sys

from msmq.testing.faults import Faults

if __name__ == "__main__":
    faults, calls = Faults(), int(sys.argv.pop(1))
    signal.signal(signal.SIGUSR1, lambda *_: faults.arm(calls))
    runpy.run_module("msmq", run_name="__main__")
