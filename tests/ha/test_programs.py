"""Programs that start servers, and are told to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.ha.postgres import ROOT

PROGRAM = """import signal
from tests.ha.postgres import end_in_order, new_server

end_in_order()
with new_server() as server:
    print(server.data, flush=True)
    signal.pause()
"""


def test_servers_end_with_the_program() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        data = Path(program.stdout.readline().strip())
        assert (data / "postmaster.pid").exists()
        program.send_signal(signal.SIGTERM)
        assert program.wait(120) == 128 + signal.SIGTERM
    assert not data.exists(), "the server has stopped, and its directory is gone"
