"""Pythons that are ready at once (tests/ready.py) are like the one they stand for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests import ready
from tests.spark.support import eventually

MODULE = """\
import os, sys, time
print(sys.argv[1:], os.getcwd(), os.environ["GIVEN"], sys.stdin.readline(), flush=True)
print("told", file=sys.stderr)
if sys.argv[1:] == ["stay"]:
    print(os.getpid(), flush=True)
    time.sleep(600)
sys.exit(7)
"""


def start(python: str, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    (folder / "given.py").write_text(MODULE, encoding="utf-8")
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [python, "-m", "given", *arguments],
        cwd=folder,
        env={**os.environ, "GIVEN": "yes"},
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
    )


def test_arguments_environment_files_and_status(tmp_path: Path) -> None:
    done = []
    for python in (sys.executable, ready.python(ready.SPARK)):
        run = start(python, tmp_path, "a", "b c")
        done.append((*run.communicate(b"line\n", timeout=120), run.returncode))
    assert done[0] == done[1]
    assert done[0][2] == 7


def test_programs_that_are_no_module_run_as_usual() -> None:
    for python in (sys.executable, ready.python(ready.SPARK)):
        command = [python, "-c", "import sys; print(sys.executable)"]
        said = subprocess.run(command, capture_output=True, check=True, timeout=120)
        assert said.stdout.decode().strip() == sys.executable


def test_who_kills_it_kills_the_fork(tmp_path: Path) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        with start(ready.python(ready.SPARK), tmp_path, "stay") as run:
            assert run.stdin is not None
            assert run.stdout is not None
            run.stdin.write(b"\n")
            run.stdin.flush()
            run.stdout.readline()
            run.stdout.readline()
            fork = int(run.stdout.readline())
            assert fork != run.pid
            run.send_signal(number)
            assert run.wait(120) != 0
            eventually(lambda f=fork: not Path(f"/proc/{f}").exists())  # type: ignore[misc]


def test_a_queue_manager_is_a_process_of_its_own(tmp_path: Path) -> None:
    arguments = ["serve", "--data", str(tmp_path / "data"), "--name", "HOST", "--listen", "127.0.0.1"]
    arguments += [f"--{door}=0" for door in ("port", "ping-port", "rpc-port")] + ["--api", "none"]
    for number, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        with ready.start("msmq", *arguments, descriptors=200) as fork:
            assert fork.stdout.readline().startswith(b"ready")
            limits = Path(f"/proc/{fork.pid}/limits").read_text(encoding="ascii")
            assert "Max open files            200" in limits
            assert fork.poll() is None
            fork.send_signal(number)
            assert fork.wait(120) == status
        assert not Path(f"/proc/{fork.pid}").exists()
    with (tmp_path / "log").open("wb") as log, ready.start("msmq", "serve", "--wrong", stderr=log) as fork:
        assert fork.wait(120) == 2
    assert b"No such option: --wrong" in (tmp_path / "log").read_bytes()


def test_a_command_is_typed_as_people_know_it() -> None:
    for program in ([sys.executable, "-m", "msmq"], [ready.msmq()]):
        done = subprocess.run([*program, "queue", "--nothing"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 2
        assert done.stderr.startswith("msmq queue: No such option: --nothing")
